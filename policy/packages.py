"""Packages that shell text installs: drivers by a system's package manager, and Python's by pip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.resources import UNKNOWN
from policy.rule import Fault, Verdict
from policy.scripts import Script, commands, variable
from policy.versions import is_package_version

_MANAGERS: Final = frozenset(
    {"apt", "apt-get", "aptitude", "dnf", "yum", "microdnf", "tdnf", "zypper"}
)
# Only text with one of these words is read word by word, which takes a second for a megabyte.
_MAY_INSTALL: Final = re.compile(r"install|update|upgrade|packages|\b(?:uvx|pipx)\b")
_INSTALL: Final = frozenset({"install", "reinstall", "localinstall", "upgrade", "update"})
# Packages that make up a GPU node's driver and container toolkit
# (docs.nvidia.com/datacenter/tesla/driver-installation-guide;
# docs.nvidia.com/datacenter/cloud-native/container-toolkit).
_DRIVER: Final = re.compile(
    r"@?(?:lib)?(?:nvidia|kmod-nvidia|dkms-nvidia|cuda|nccl|xserver-xorg-video-nvidia"
    r"|datacenter-gpu-manager)(?:$|[-_:=\d*])"
)
_RPM: Final = re.compile(r"@?[A-Za-z][\w+-]*?-(?P<version>(?:[0-9]+:)?[0-9]+\.[\w.~+:-]*[\w])")
_VARIABLE: Final = re.compile(r"\$\{?(\w+)[^}]*\}?")
_FILES: Final = (".deb", ".rpm", ".run")
_DRIVER_REMEDY: Final = (
    "write the version that was tested, such as nvidia-driver-580=580.95.05-0ubuntu1"
)
_PIP_REMEDY: Final = (
    "build it into the image, or install with --require-hashes -r from a file with hashes"
)
# Options of pip that are followed by a value.
_PIP_VALUES: Final = frozenset(
    {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-t", "--target", "--prefix",
     "--root", "-c", "--constraint", "--cache-dir", "--timeout", "--retries", "--trusted-host",
     "--python", "-p", "--platform", "--proxy"}
)  # fmt: skip


def driver_faults(script: Script) -> Iterator[Fault]:
    """Yield a fault for each package of a driver or toolkit that has no exact version."""
    if script.text is UNKNOWN:
        yield _unknown(script, "is not known, and may install any driver", _DRIVER_REMEDY)
        return
    for name in dict.fromkeys(_installed(script.text)):
        verdict = _driver_verdict(name, script.text)
        if verdict is not None:
            yield Fault(
                key=script.key,
                reason=f"installs {name.partition('=')[0]!a} in whichever version is newest",
                remedy=_DRIVER_REMEDY,
                verdict=verdict,
            )


def _installed(text: str) -> Iterator[str]:
    if not _MAY_INSTALL.search(text):
        return
    for words in commands(text):
        if words[0] == "ubuntu-drivers" and {"install", "autoinstall"} & set(words):
            yield "ubuntu-drivers"
        elif words[0].rpartition("/")[2] in _MANAGERS and _INSTALL & set(words[1:]):
            yield from (word for word in words[1:] if _DRIVER.match(word))
    if text.lstrip().startswith("#cloud-config"):
        yield from _cloud_packages(text)


def _cloud_packages(text: str) -> Iterator[str]:
    """Yield packages of cloud-init's list (cloudinit.readthedocs.io, package update)."""
    listed = re.search(r"(?ms)^packages:[ \t]*(.*?)(?=^\w|\Z)", text)
    for item in re.split(r"\n\s*-\s*|^\[|,(?![^\[]*\])", listed[1] if listed else ""):
        name, _, version = item.strip(" -[]\n\"'").partition(",")
        if _DRIVER.match(name):
            version = version.strip(" \"'")
            yield f"{name.strip()}={version}" if version else name.strip()


def _driver_verdict(word: str, text: str) -> Verdict | None:
    if word.endswith(_FILES):
        return None
    name, sign, version = word.partition("=")
    if not sign:
        rpm = _RPM.fullmatch(name)
        return (
            None
            if rpm and is_package_version(_without_architecture(rpm["version"]))
            else Verdict.FAIL
        )
    asked = _VARIABLE.fullmatch(version)
    if asked:
        known = variable(text, asked[1])
        if known is None:
            return Verdict.UNDETERMINABLE
        version = known
    return None if is_package_version(version) else Verdict.FAIL


def _without_architecture(version: str) -> str:
    return re.sub(r"\.(?:x86_64|aarch64|noarch)$", "", version)


def pip_install_faults(script: Script) -> Iterator[Fault]:
    """Yield a fault for each package that pip or uv would install without a hash."""
    if script.text is UNKNOWN:
        yield _unknown(script, "is not known, and may install any package", _PIP_REMEDY)
        return
    read = commands(script.text) if _MAY_INSTALL.search(script.text) else ()
    for what in dict.fromkeys(map(_pip_installs, read)):
        if what is not None:
            yield Fault(
                key=script.key,
                reason=f"installs {what} when it starts, whatever bytes the index has that day",
                remedy=_PIP_REMEDY,
            )


def _pip_installs(words: tuple[str, ...]) -> str | None:
    """Return what a command installs by pip, in words, unless hashes are required of all of it."""
    rest = _after_pip(words)
    if rest is None or "--require-hashes" in rest:
        return None
    taken = [
        word
        for before, word in zip(("", *rest), rest, strict=False)
        if not word.startswith("-") and before not in _PIP_VALUES
    ]
    packages = [word for word in taken if not _is_local(word)]
    if not packages:
        return None
    named = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*(?=$|[\[=<>~! ])", packages[0])
    return f"{named[0]} by pip" if named else "packages by pip"


def _after_pip(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return what follows ``pip install``, however pip is called; None for another command."""
    tool = words[0].rpartition("/")[2]
    if words[1:3] == ("-m", "pip"):  # whatever this Python is called
        words, tool = words[2:], "pip"
    if tool == "uv" and words[1:2] == ("pip",):
        words, tool = words[1:], "pip"
    if tool in {"uvx", "pipx"} or words[:3] == ("uv", "tool", "install"):
        start = {"uvx": 1, "pipx": 2}.get(tool, 3)
        installs = tool != "pipx" or words[1:2] in {("install",), ("run",)}
        return words[start : start + 1] if installs else None
    is_pip = re.fullmatch(r"pip[0-9.]*", tool) is not None
    return words[words.index("install") + 1 :] if is_pip and "install" in words else None


def _is_local(word: str) -> bool:
    return word.startswith((".", "/")) and not word.endswith((".txt", ".lock", ".in"))


def _unknown(script: Script, reason: str, remedy: str) -> Fault:
    return Fault(key=script.key, reason=reason, remedy=remedy, verdict=Verdict.UNDETERMINABLE)
