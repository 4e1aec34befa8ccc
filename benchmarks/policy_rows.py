"""The case files of every rule, as files that checkov reads, and what either of us finds in them.

Kubernetes cases become manifests. Cases of AWS become Terraform, since checkov reads no Pulumi:
the provider is bridged from Terraform's, so that names differ in spelling alone. Charts, calls of
providers and component types have no such form; of them checkov can say nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.policy_peers import Peers, failed_checks
from policy.rules import RULES
from tests.check.test_cases_as_manifests import is_known, is_object, manifests
from tests.policy.policy_cases import Case, all_cases

# Checks of checkov on the same matter as a rule (github.com/bridgecrewio/checkov, its own list of
# checks); a rule that is missing here has none.
SAME_MATTER: Final[Mapping[str, frozenset[str]]] = {
    "images-are-pinned-by-digest": frozenset({"CKV_K8S_43", "CKV_K8S_14"}),
    "tags-beside-digests-name-one-version": frozenset({"CKV_K8S_14"}),
    "engines-stay-off-their-nodes-network": frozenset({"CKV_K8S_19", "CKV_K8S_26"}),
    "pods-never-own-their-node": frozenset(
        {"CKV_K8S_16", "CKV_K8S_17", "CKV_K8S_18", "CKV_K8S_27", "CKV_K8S_39"}
    ),
    "engine-pods-are-restricted": frozenset(
        {"CKV_K8S_16", "CKV_K8S_20", "CKV_K8S_23", "CKV_K8S_28", "CKV_K8S_31", "CKV_K8S_37"}
    ),
    "engines-hold-no-cluster-token": frozenset({"CKV_K8S_38"}),
    "engines-admit-only-the-gateway": frozenset({"CKV2_K8S_6"}),
    "engine-ports-admit-only-private-sources": frozenset(
        {"CKV_AWS_24", "CKV_AWS_25", "CKV_AWS_260", "CKV_AWS_277", "CKV_AWS_352"}
    ),
    "cluster-endpoints-are-private": frozenset({"CKV_AWS_38", "CKV_AWS_39"}),
    "clusters-name-their-kubernetes-version": frozenset({"CKV_AWS_339"}),
    "functions-and-apis-know-their-callers": frozenset(
        {"CKV_AWS_59", "CKV_AWS_258", "CKV_AWS_301", "CKV_AWS_309"}
    ),
    "only-web-ports-are-ever-public": frozenset({"CKV_AWS_24", "CKV_AWS_25"}),
    "metadata-is-answered-by-token-only": frozenset({"CKV_AWS_79"}),
    "gpu-nodes-have-no-public-addresses": frozenset({"CKV_AWS_88", "CKV_AWS_130"}),
    "node-images-are-one-release": frozenset({"CKV_AWS_386"}),
    "launch-templates-are-used-by-number": frozenset({"CKV_AWS_315"}),
    "sources-are-pinned-by-commit": frozenset({"CKV_TF_1"}),
}
# Where Terraform's name of a resource is not that of its module and type.
_WITHOUT_MODULE: Final = frozenset({"ec2", "alb"})
_TERRAFORM_NAMES: Final = {
    "aws:lb/loadBalancer:LoadBalancer": "aws_lb",
    "aws:alb/loadBalancer:LoadBalancer": "aws_lb",
    "aws:elb/loadBalancer:LoadBalancer": "aws_elb",
    "aws:lambda/functionUrl:FunctionUrl": "aws_lambda_function_url",
    "aws:apigateway/restApi:RestApi": "aws_api_gateway_rest_api",
    "aws:apigateway/method:Method": "aws_api_gateway_method",
}
_MAPS: Final = frozenset({"tags", "variables"})
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One rule: how many cases are bad and good, and how many of them each of us refuses.

    ``readable`` counts those that can be written for checkov at all.
    """

    rule: str
    bad: int
    bad_readable: int
    caught: int
    caught_by_us: int
    good: int
    alarms: int
    alarms_by_us: int


def rows(peers: Peers, folder: Path) -> list[Row]:
    """Return a row for each rule, after one run of checkov over all cases."""
    cases = list(all_cases())
    names = {index: _write(case, index, folder) for index, case in enumerate(cases)}
    failed = failed_checks(peers, folder)
    return [
        _row(
            rule.name,
            [(case, names[i]) for i, case in enumerate(cases) if case.rule is rule],
            failed,
        )
        for rule in RULES
    ]


def _row(rule: str, cases: list[tuple[Case, str | None]], failed: Mapping[str, set[str]]) -> Row:
    same = SAME_MATTER.get(rule, frozenset())
    bad = [(case, name) for case, name in cases if case.finds]
    good = [(case, name) for case, name in cases if not case.finds]

    def refused(among: list[tuple[Case, str | None]]) -> int:
        return sum(1 for _, name in among if name and failed.get(name, set()) & same)

    def refused_by_us(among: list[tuple[Case, str | None]]) -> int:
        return sum(1 for case, _ in among if case.judged(case.properties))

    return Row(
        rule=rule,
        bad=len(bad),
        bad_readable=sum(1 for _, name in bad if name),
        caught=refused(bad),
        caught_by_us=refused_by_us(bad),
        good=len(good),
        alarms=refused(good),
        alarms_by_us=refused_by_us(good),
    )


def _write(case: Case, index: int, folder: Path) -> str | None:
    """Write a case in a form that checkov reads; return the file's name, or None without one."""
    everything = [(case.type, case.properties)]
    everything += [(one["type"], one["properties"]) for one in case.among or ()]
    if not all(is_known(raw) for _, raw in everything):
        return None
    if all(is_object(type_, raw) for type_, raw in everything):
        name, text = f"case-{index}.yaml", yaml.safe_dump_all(manifests(case))
    elif all(_terraform_name(type_) for type_, _ in everything):
        name, text = f"case-{index}.tf", _terraform(everything)
    else:
        return None
    (folder / name).write_text(text)
    return name


def _terraform(everything: list[tuple[str, dict[str, Any]]]) -> str:
    return "\n".join(
        f'resource "{_terraform_name(type_)}" "one_{index}" {{\n{_body(properties)}\n}}\n'
        for index, (type_, properties) in enumerate(everything)
    )


def _body(properties: Mapping[str, Any]) -> str:
    """Return arguments and blocks: what holds objects is a block for each, but for maps."""
    lines = []
    for key, value in properties.items():
        name = _snake(key)
        blocks = value if isinstance(value, list) else [value]
        if name not in _MAPS and blocks and all(isinstance(one, dict) for one in blocks):
            lines += [f"{name} {{\n{_body(one)}\n}}" for one in blocks]
        else:
            lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines)


def _terraform_name(type_: str) -> str | None:
    """Return Terraform's name of a type of the bridged provider; calls have none."""
    if type_ in _TERRAFORM_NAMES:
        return _TERRAFORM_NAMES[type_]
    match = re.fullmatch(r"aws:(\w+)/(\w+):(\w+)", type_)
    if match is None or match[3].startswith("get"):
        return None
    module = "" if match[1] in _WITHOUT_MODULE else f"{match[1]}_"
    return f"aws_{module}{_snake(match[2])}"


def _snake(name: str) -> str:
    return _CAPITAL.sub(r"_\1", name).lower()
