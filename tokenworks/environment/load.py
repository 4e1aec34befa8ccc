"""From a file name to an environment, or to every problem in it at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tokenworks.environment.client_ca import read_client_ca
from tokenworks.environment.gateway import Gateway
from tokenworks.environment.jwks import read_jwks
from tokenworks.environment.load_test import LoadTest, read_load_test
from tokenworks.environment.model_files import ModelFiles, read_model_files
from tokenworks.environment.platform_keys import platform_problems
from tokenworks.environment.sections import Environment, Model
from tokenworks.environment.weights import Manifest, read_manifest
from tokenworks.environment.yaml_source import KeyPath, YamlSource, read_yaml, spell
from tokenworks.errors import ConfigError, Problem

SUFFIX = ".yaml"
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_SECRET_PLACES = {"api_keys", "credential", "token", "private_key", "key_file", "kubeconfig"}
"""Keys that name a secret or its file, where somebody may have written the secret itself."""
RESERVED_NAMES = ("chosen", "env", "passphrase", "state")
"""Names of what lies beside the environments' own folders in ``.tokenworks``."""


@dataclass(frozen=True, kw_only=True)
class LoadedEnvironment:
    """An environment, the files it names (by model), and where each key stands."""

    name: str
    environment: Environment
    manifests: dict[str, Manifest]
    load_tests: dict[str, LoadTest]
    model_files: dict[str, ModelFiles]
    source_authorities: dict[str, str]
    jwks: str | None
    client_ca: str | None
    source: YamlSource


def environment_names(stacks: Path) -> tuple[str, ...]:
    """Names of the environments in a folder, sorted; Pulumi's stack settings are not among them."""
    files = stacks.glob(f"*{SUFFIX}") if stacks.is_dir() else ()
    return tuple(sorted(file.stem for file in files if not file.name.startswith("Pulumi.")))


def load_environment(name: str, stacks: Path) -> LoadedEnvironment:
    """Read ``<stacks>/<name>.yaml`` and every file beside it that it names.

    Raises:
        ConfigError: with every problem that could be found, each with key path and line.
    """
    _refuse_name(name)
    file = stacks / f"{name}{SUFFIX}"
    if not file.is_file():
        raise _unknown(name, stacks)
    source = read_yaml(file)
    environment, problems = _validate(source)
    if environment is None:
        raise ConfigError(problems)
    problems += _doubled_names(environment, source)
    manifests = _manifests(environment, source, problems)
    load_tests = _load_tests(environment, source, problems)
    model_files = _model_files(environment, source, problems)
    authorities = _source_authorities(environment, source, problems)
    jwks, client_ca = _gateway_files(environment.gateway, source, problems)
    problems += platform_problems(environment, source)
    if problems:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line or 0))
    return LoadedEnvironment(
        name=name,
        environment=environment,
        manifests=manifests,
        load_tests=load_tests,
        model_files=model_files,
        source_authorities=authorities,
        jwks=jwks,
        client_ca=client_ca,
        source=source,
    )


def _refuse_name(name: str) -> None:
    """Stacks, clusters and folders carry the name of their environment."""
    if NAME.fullmatch(name) is None or name in RESERVED_NAMES:
        reason = "is reserved" if name in RESERVED_NAMES else "is not a usable name"
        remedy = "use up to 40 lower-case letters, digits and hyphens, starting with a letter"
        raise ConfigError([Problem(key="environment", given=name, reason=reason, remedy=remedy)])


def _unknown(name: str, stacks: Path) -> ConfigError:
    known = ", ".join(environment_names(stacks)) or "none"
    remedy = f"use one of: {known}; or create {stacks / (name + SUFFIX)}"
    return ConfigError([Problem(key="environment", given=name, reason="is unknown", remedy=remedy)])


def _validate(source: YamlSource) -> tuple[Environment | None, list[Problem]]:
    try:
        return Environment.model_validate(source.data), list(source.problems)
    except ValidationError as error:
        details = error.errors(include_url=False)
        reported = {problem.key for problem in source.problems} | _misspelt(details)
        telling = (d for d in details if not _is_echo(d) and spell(tuple(d["loc"])) not in reported)
        found = [*source.problems, *(_problem(d, source) for d in telling)]
        return None, sorted(found, key=lambda problem: problem.line or 0)


def _is_echo(details: ErrorDetails) -> bool:
    """Whether a list is called empty only because its entries were refused one by one."""
    return details["type"] == "too_short" and bool(details["input"])


def _misspelt(details: list[ErrorDetails]) -> set[str]:
    """Key paths that are there under a misspelt name, and so are not missing as well."""
    unknown = [tuple(d["loc"]) for d in details if d["type"] == "extra_forbidden"]
    return {spell((*path[:-1], match)) for path in unknown if (match := _match(path))}


def _problem(details: ErrorDetails, source: YamlSource) -> Problem:
    path: KeyPath = tuple(details["loc"])
    kind, context = details["type"], details.get("ctx", {})
    if kind == "missing":
        section, key = path[:-1], str(path[-1])
        place = source.problem(section, given=None, reason="", remedy="")
        meaning = _meaning(path)
        return source.problem(
            path,
            given=None,
            reason="is missing",
            remedy=f"add {key} below line {place.line}" + (f" ({meaning})" if meaning else ""),
        )
    if kind == "extra_forbidden":
        return source.problem(path, given=None, reason="is not a known key", remedy=_nearest(path))
    given = _shown(path, details["input"])
    if kind == "tokenworks":
        return source.problem(path, given=given, reason=context["reason"], remedy=context["remedy"])
    reason, remedy = _plain(kind, context, details["msg"])
    return source.problem(path, given=given, reason=reason, remedy=remedy)


def _plain(kind: str, context: dict[str, Any], message: str) -> tuple[str, str]:
    if kind == "literal_error":
        return "is not supported", f"use {context['expected']}"
    if kind in ("greater_than_equal", "less_than_equal"):
        return "is out of range", "use a whole number from 0 to 100"
    if kind == "greater_than":
        return f"is not above {context['gt']}", f"use a whole number above {context['gt']}"
    if kind == "too_short":
        return "is empty", "give at least one entry"
    wanted = {
        "int_type": "a whole number",
        "bool_type": "true or false",
        "string_type": "text (quote it if it looks like a number)",
        "tuple_type": "a list",
        "model_type": "a section of keys",
        "dict_type": "a section of keys",
    }.get(kind)
    if wanted:
        return "has the wrong type", f"write {wanted}"
    return f"is refused ({message})", "correct the value"


def _shown(path: KeyPath, value: Any) -> str | None:
    """What was given, unless it stands where somebody may have written a secret."""
    if _SECRET_PLACES & set(path):
        return None
    text = repr(value) if isinstance(value, str) else str(value)
    if "source" in path and ("@" in text or "?" in text):
        return None  # an address with a password or a signature
    if isinstance(value, (dict, list)):
        text = f"a {'section' if isinstance(value, dict) else 'list'} here"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _nearest(path: KeyPath) -> str:
    match = _match(path)
    known = ", ".join(_section(path[:-1]).model_fields)
    return f"did you mean {match}" if match else f"use one of: {known}"


def _match(path: KeyPath) -> str | None:
    known = tuple(_section(path[:-1]).model_fields)
    return next(iter(difflib.get_close_matches(str(path[-1]), known, n=1)), None)


def _meaning(path: KeyPath) -> str | None:
    field = _section(path[:-1]).model_fields.get(str(path[-1]))
    return field.description.rstrip(".").lower() if field and field.description else None


def _section(path: KeyPath) -> type[BaseModel]:
    """The section that a key path leads to."""
    section: type[BaseModel] = Environment
    for part in path:
        if isinstance(part, str):
            section = _inner(section.model_fields[part].annotation)
    return section


def _inner(annotation: Any) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, tuple, Union, UnionType):
        return _inner(get_args(annotation)[0])
    raise TypeError(f"{annotation} holds no section")


def _doubled_names(environment: Environment, source: YamlSource) -> list[Problem]:
    groups: tuple[tuple[KeyPath, tuple[str, ...]], ...] = (
        (("node_pools",), tuple(pool.name for pool in environment.node_pools)),
        (("models",), tuple(model.name for model in environment.models)),
        (("gateway", "tenants"), tuple(tenant.name for tenant in environment.gateway.tenants)),
        (("gateway", "apis"), tuple(api.name for api in environment.gateway.apis)),
        (("gateway", "rules"), tuple(rule.name for rule in environment.gateway.rules)),
    )
    return [
        source.problem(
            (*path, index, "name"),
            given=repr(name),
            reason=f"is already the name of {path[-1]}[{names.index(name)}]",
            remedy="give each its own name",
        )
        for path, names in groups
        for index, name in enumerate(names)
        if names.index(name) != index
    ]


def _manifests(
    environment: Environment, source: YamlSource, problems: list[Problem]
) -> dict[str, Manifest]:
    def read(model: Model, file: Path) -> Manifest:
        weights = model.weights
        return read_manifest(file, repository=weights.repository, revision=weights.revision)

    named = [model.weights.manifest for model in environment.models]
    return _files(environment, source, problems, ("weights", "manifest"), named, read)


def _load_tests(
    environment: Environment, source: YamlSource, problems: list[Problem]
) -> dict[str, LoadTest]:
    def read(_: Model, file: Path) -> LoadTest:
        return read_load_test(file)

    named = [model.load_test for model in environment.models]
    return _files(environment, source, problems, ("load_test",), named, read)


def _model_files(
    environment: Environment, source: YamlSource, problems: list[Problem]
) -> dict[str, ModelFiles]:
    def read(model: Model, path: Path) -> ModelFiles:
        weights = model.weights
        return read_model_files(path, named=str(weights.config), repository=weights.repository)

    named = [model.weights.config for model in environment.models]
    return _files(environment, source, problems, ("weights", "config"), named, read)


def _source_authorities(
    environment: Environment, source: YamlSource, problems: list[Problem]
) -> dict[str, str]:
    """Who signs the certificates of the servers that weights come from, by model."""

    def read(_: Model, file: Path) -> str:
        return read_client_ca(file)

    sources = [model.weights.source for model in environment.models]
    kinds = ["hub" if one.hub else "http" for one in sources]
    named = [one.server.ca if one.server else None for one in sources]
    return {
        name: text
        for kind in ("hub", "http")
        for name, text in _files(
            environment,
            source,
            problems,
            ("weights", "source", kind, "ca"),
            [file if its == kind else None for its, file in zip(kinds, named, strict=True)],
            read,
        ).items()
    }


Read = TypeVar("Read")


def _files(
    environment: Environment,
    source: YamlSource,
    problems: list[Problem],
    key: KeyPath,
    named: Sequence[str | None],
    read: Callable[[Model, Path], Read],
) -> dict[str, Read]:
    """What the files of one kind hold, by model; what is wrong with them is added to ``problems``.

    ``named`` is each model's file as the environment spells it, None where it names none.
    """
    found: dict[str, Read] = {}
    for index, (model, file) in enumerate(zip(environment.models, named, strict=True)):
        if file is None:
            continue
        try:
            found[model.name] = read(model, source.file.parent / file)
        except ConfigError as error:
            path: KeyPath = ("models", index, *key)
            problems += [
                source.problem(path, given=file, reason=p.reason, remedy=p.remedy)
                for p in error.problems
            ]
    return found


def _gateway_files(
    gateway: Gateway, source: YamlSource, problems: list[Problem]
) -> tuple[str | None, str | None]:
    """Public keys of the identity provider, and the authorities of callers' certificates."""

    def read(key: KeyPath, file: str | None, content: Callable[[Path], str]) -> str | None:
        if file is None:
            return None
        try:
            return content(source.file.parent / file)
        except ConfigError as error:
            problems.extend(
                source.problem(("gateway", *key), given=file, reason=p.reason, remedy=p.remedy)
                for p in error.problems
            )
            return None

    jwt, callers = gateway.jwt, gateway.client_certificates
    return (
        read(("jwt", "jwks"), jwt.jwks if jwt else None, read_jwks),
        read(("client_certificates", "ca"), callers.ca if callers else None, read_client_ca),
    )
