"""Shell text that machines and containers run: user data, commands, scripts in ConfigMaps."""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.aws import aws_type
from policy.objects import is_kubernetes, objects_in
from policy.pods import pod_specs
from policy.resources import (
    UNKNOWN,
    Body,
    Resource,
    Unknown,
    Value,
    elements,
    is_body,
    key_path,
    peek,
)

_USER_DATA: Final = ("userData", "userDataBase64", "nodeUserData", "extraBootstrapArguments")
_MACHINES: Final = frozenset(
    {
        "ec2.Instance",
        "ec2.LaunchTemplate",
        "ec2.LaunchConfiguration",
        "ec2.SpotInstanceRequest",
        "autoscaling.LaunchConfiguration",
        "eks-component.ManagedNodeGroup",
        "eks-component.NodeGroup",
        "eks-component.NodeGroupV2",
        "imagebuilder.ImageRecipe",
    }
)
# pulumi.com/registry/packages/command: scripts run here or on a machine.
_COMMAND: Final = re.compile(r"command:(?:local|remote):Command")
_COMMANDS: Final = ("create", "update")
_SHELL: Final = re.compile(r"(?:^|/)(?:ba|da|z|k|a)?sh$")
_SEPARATORS: Final = re.compile(r"\n|&|\|\|?|;|`|[()]")
# Words before a command that are none of its own, YAML's dash of cloud-init among them.
_BEFORE: Final = frozenset(
    "sudo env exec time nohup then do else if while ! { ( - -E -H && RUN".split()  # noqa: SIM905
)
_NOT_KNOWN: Final = "?"  # stands for a word of a command that is not known
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*")


@dataclass(frozen=True, kw_only=True)
class Script:
    """A text that a shell runs, and where it stands; UNKNOWN where nobody knows it yet."""

    key: str
    text: str | Unknown


def may_hold_scripts(type_token: str) -> bool:
    """Return whether resources of a type may hold shell text."""
    return (
        is_kubernetes(type_token)
        or aws_type(type_token) in _MACHINES
        or _COMMAND.fullmatch(type_token) is not None
    )


def scripts_in(resource: Resource) -> Iterator[Script]:
    """Yield every text in a resource that a shell runs."""
    if is_kubernetes(resource.type):
        yield from _in_objects(resource)
        return
    is_command = _COMMAND.fullmatch(resource.type) is not None
    names = _COMMANDS if is_command else _USER_DATA
    data = resource.properties.get("launchTemplateData")
    if data is UNKNOWN:
        yield Script(key="launchTemplateData", text=UNKNOWN)
    for keys, body in (((), resource.properties), (("launchTemplateData",), data)):
        for name in names:
            given = body.get(name) if is_body(body) else None
            text = _decoded(given) if isinstance(given, str) else given
            yield from _script(key_path(*keys, name), text)


def _in_objects(resource: Resource) -> Iterator[Script]:
    for thing in objects_in(resource):
        for pod in pod_specs(thing):
            for keys, container in pod.containers():
                yield from _script(thing.path(*keys), _command_line(container))
        if thing.kind == "ConfigMap" and is_body(data := peek(thing.body, "data")):
            for name in data:
                if name.endswith(".sh"):
                    yield from _script(thing.path("data", name), data[name])
        if thing.kind == "EC2NodeClass" and thing.group == "karpenter.k8s.aws":
            given = peek(thing.body, "spec", "userData")
            yield from _script(thing.path("spec", "userData"), given)


def _script(key: str, text: Value) -> Iterator[Script]:
    if text is UNKNOWN or isinstance(text, str):
        yield Script(key=key, text=text)


def _command_line(container: Body) -> str | Unknown | None:
    """Return a container's command as text, UNKNOWN for a shell whose script is not known."""
    listed = [container.get(name) for name in ("command", "args")]
    words: list[Value] = [word for one in listed for _, word in elements(one)]
    known = [word for word in words if isinstance(word, str)]
    if any(map(_SHELL.search, known)):
        script = "\n".join(word for word in known if not word.startswith("-"))
        return UNKNOWN if UNKNOWN in (*listed, *words) else script
    readable = shlex.join(word if isinstance(word, str) else _NOT_KNOWN for word in words)
    # A word of several may be a script for an entry point that is a shell.
    scripts = [word for word in known if re.search(r"\s", word)]
    return "\n".join([readable, *scripts]) if known else None


def _decoded(text: str) -> str | Unknown:
    """Return user data as it will be run; launch templates take it in base64."""
    if not re.fullmatch(r"[A-Za-z0-9+/\s]{8,}={0,2}\s*", text):
        return text
    try:
        return base64.b64decode(text, validate=False).decode()
    except UnicodeDecodeError:
        return UNKNOWN  # compressed, or no text at all
    except binascii.Error:
        return text


def commands(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command of a shell text, without sudo and the like before them.

    The reading is generous: what a shell would not run is read as if it would.
    """
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        if line.strip().startswith("#"):
            continue
        plain = re.sub(r"[\[\],]", " ", line) if re.match(r"\s*-\s*\[", line) else line
        for part in _SEPARATORS.split(plain):
            words = _words(part)
            while words and (words[0] in _BEFORE or _ASSIGNMENT.fullmatch(words[0])):
                words = words[1:]
            if words:
                yield tuple(words)


def _words(part: str) -> list[str]:
    try:
        words = shlex.split(part, comments=True)
    except ValueError:  # an open quote: the rest of it is in another part
        words = part.replace('"', " ").replace("'", " ").split()
    return words


def variable(text: str, name: str) -> str | None:
    """Return what a shell text sets a variable to, if it does so with a plain value."""
    match = re.search(rf"(?:^|[\s;]){re.escape(name)}=[\"']?([^\s\"';$`]+)", text)
    return match[1] if match else None
