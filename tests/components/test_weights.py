"""What the serving program registers so that weights come, are checked, and go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenworks.check.judge import Outcome, judge
from tokenworks.check.recorded import resources_of
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.operations.record import record_environment
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment, resolve_loaded
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "cases" / "environments" / "good"


def recorded_of(plan: Plan) -> dict[str, Any]:
    recordings = record_environment(Workspace(ROOT), plan)
    return {one.name: one for recording in recordings.values() for one in recording.resources}


@pytest.fixture(scope="module")
def plan() -> Plan:
    loaded = load_environment("weights-from-everywhere", GOOD)
    return resolve_loaded(loaded, read_lock(ROOT / "stacks"))


@pytest.fixture(scope="module")
def recorded(plan: Plan) -> dict[str, Any]:
    return recorded_of(plan)


def job(recorded: dict[str, Any], model: str, step: str = "populate") -> Any:
    component = {"populate": "weights", "collect": "weights-old"}[step]
    return recorded[f"{model}-{component}-{step}"].inputs


def pod(job: Any) -> Any:
    return job["spec"]["template"]["spec"]


def mounts(job: Any) -> dict[str, tuple[str, bool]]:
    (container,) = pod(job)["containers"]
    return {
        one["name"]: (one["mountPath"], one.get("readOnly", False))
        for one in container["volumeMounts"]
    }


def test_jobs_carry_what_was_planned(plan: Plan, recorded: dict[str, Any]) -> None:
    for model in plan.models:
        populate = model.weights.populate
        for step, deadline in (
            ("populate", populate.deadline_seconds),
            ("collect", populate.collect_deadline_seconds),
        ):
            made = job(recorded, model.name, step)
            assert made["spec"]["activeDeadlineSeconds"] == deadline.value
            assert made["spec"]["backoffLimit"] == populate.retries.value
            (container,) = pod(made)["containers"]
            assert container["image"] == model.image.reference
            assert container["resources"] == {
                "requests": {
                    "cpu": f"{populate.cpu_millicores.value}m",
                    "memory": f"{populate.memory_mib.value}Mi",
                },
                "limits": {"memory": f"{populate.memory_mib.value}Mi"},
            }
        size = f"{model.weights.volume_gib.value}Gi"
        claim = recorded[f"{model.name}-weights-claim"].inputs["spec"]
        assert claim["resources"]["requests"]["storage"] == size
        assert list(claim["accessModes"]) == ["ReadWriteMany"]


def test_jobs_have_no_right_to_spare(plan: Plan, recorded: dict[str, Any]) -> None:
    for model in plan.models:
        for step in ("populate", "collect"):
            spec = pod(job(recorded, model.name, step))
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert spec["automountServiceAccountToken"] is False
            assert spec["restartPolicy"] == "Never"
            (container,) = spec["containers"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
            assert kinds <= {"configMap", "secret", "persistentVolumeClaim"}


def test_a_job_that_was_refused_is_not_tried_again_and_a_drained_node_costs_nothing(
    recorded: dict[str, Any],
) -> None:
    made = job(recorded, "from-a-hub")
    drained, refused = made["spec"]["podFailurePolicy"]["rules"]
    assert drained["action"] == "Ignore"
    assert drained["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert refused["action"] == "FailJob"
    assert refused["onExitCodes"]["containerName"] == pod(made)["containers"][0]["name"]
    assert list(refused["onExitCodes"]["values"]) == [3]
    assert made["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}


def test_only_the_job_writes_to_the_volume(plan: Plan, recorded: dict[str, Any]) -> None:
    for model in plan.models:
        assert mounts(job(recorded, model.name))["weights"] == ("/weights", False)
        engine = recorded[f"{model.name}-deployment"].inputs["spec"]["template"]["spec"]
        for container in (*engine["initContainers"], *engine["containers"]):
            (mount,) = [one for one in container["volumeMounts"] if one["name"] == "weights"]
            assert (mount["mountPath"], mount["readOnly"]) == ("/models", True)
        (gate,) = engine["initContainers"]
        assert list(gate["command"][-2:]) == [
            model.weights.path,
            str(model.weights_gate_threads.value),
        ]


def test_a_token_is_a_file_of_a_secret_and_in_nobodys_arguments(
    recorded: dict[str, Any],
) -> None:
    made = job(recorded, "from-a-hub")
    assert mounts(made)["token"] == ("/etc/weights-token", True)
    (volume,) = [one for one in pod(made)["volumes"] if one["name"] == "token"]
    assert volume["secret"] == {"secretName": "from-a-hub-weights-token", "defaultMode": 0o440}
    secret = recorded["from-a-hub-weights-token"]
    assert secret.secrets
    (container,) = pod(made)["containers"]
    assert "env" not in container
    settings = json.loads(recorded["from-a-hub-weights-tools"].inputs["data"]["settings.json"])
    assert settings["source"]["token_file"] == "/etc/weights-token/token"  # noqa: S105
    assert settings["source"]["ca_file"] == "/etc/weights-tools/authority.pem"
    assert [name for name in recorded if name.endswith("-token")] == ["from-a-hub-weights-token"]


def ways_out(recorded: dict[str, Any], model: str) -> Any:
    return recorded[f"{model}-weights-to-source"].inputs["spec"]


def test_a_job_reaches_its_source_and_nothing_else(recorded: dict[str, Any]) -> None:
    spec = ways_out(recorded, "from-a-hub")
    assert list(spec["policyTypes"]) == ["Ingress", "Egress"]
    assert "ingress" not in spec
    dns, source = spec["egress"]
    assert {one["port"] for one in dns["ports"]} == {53}
    assert [one["ipBlock"] for one in source["to"]] == [
        {"cidr": "10.20.0.0/16"},
        {"cidr": "10.30.0.7/32"},
    ]
    assert [one["port"] for one in source["ports"]] == [443]
    (literal,) = ways_out(recorded, "from-a-machine")["egress"]
    assert [one["ipBlock"] for one in literal["to"]] == [{"cidr": "192.0.2.3/32"}]
    assert [one["port"] for one in literal["ports"]] == [8080]


def test_a_public_source_opens_no_private_address(recorded: dict[str, Any]) -> None:
    _, source = ways_out(recorded, "from-a-server")["egress"]
    four, six = (one["ipBlock"] for one in source["to"])
    assert {"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} <= set(
        four["except"]
    )
    assert {"fc00::/7", "fe80::/10"} <= set(six["except"])


def test_the_way_out_is_that_of_the_job_and_of_no_engine(
    plan: Plan, recorded: dict[str, Any]
) -> None:
    for model in ("from-a-hub", "from-a-server", "from-a-machine"):
        selector = ways_out(recorded, model)["podSelector"]["matchLabels"]
        engine = recorded[f"{model}-deployment"].inputs["spec"]["template"]["metadata"]["labels"]
        labels = {
            step: job(recorded, model, step)["spec"]["template"]["metadata"]["labels"]
            for step in ("populate", "collect")
        }
        assert selector.items() <= labels["populate"].items()
        assert not selector.items() <= labels["collect"].items()
        assert not selector.items() <= engine.items()


def test_a_job_whose_source_is_a_volume_calls_nobody(
    recorded: dict[str, Any],
) -> None:
    for model, folder in (("from-a-volume", "qwen/0.6b"), ("from-a-bucket", ".")):
        assert f"{model}-weights-to-source" not in recorded
        closed = recorded[f"{model}-weights-to-nobody"].inputs["spec"]
        assert list(closed["policyTypes"]) == ["Ingress", "Egress"]
        assert not closed.get("egress")
        made = job(recorded, model)
        assert mounts(made)["source"] == ("/source", True)
        (volume,) = [one for one in pod(made)["volumes"] if one["name"] == "source"]
        assert volume["persistentVolumeClaim"]["readOnly"] is True
        data = recorded[f"{model}-weights-tools"].inputs["data"]
        assert json.loads(data["settings.json"])["source"] == {"folder": f"/source/{folder}"}


@pytest.mark.parametrize("name", ["local", "weights-from-everywhere"])
def test_each_stack_is_good_by_itself_as_the_policy_pack_sees_it(name: str) -> None:
    """The check sees all stacks at once; the pack sees one, without the namespaces' policies."""
    folder = ROOT / "stacks" if name == "local" else GOOD
    plan = resolve_loaded(load_environment(name, folder), read_lock(ROOT / "stacks"))
    for recording in record_environment(Workspace(ROOT), plan).values():
        judgement = judge(resources_of([recording]))
        assert judgement.outcome is Outcome.GOOD, [str(one) for one in judgement.findings]


def test_what_removes_files_calls_nobody_and_is_called_by_nobody(
    plan: Plan, recorded: dict[str, Any]
) -> None:
    for model in plan.models:
        closed = recorded[f"{model.name}-weights-old-to-nobody"].inputs["spec"]
        assert list(closed["policyTypes"]) == ["Ingress", "Egress"]
        assert not closed.get("egress")
        labels = job(recorded, model.name, "collect")["spec"]["template"]["metadata"]["labels"]
        assert closed["podSelector"]["matchLabels"].items() <= labels.items()


def test_other_weights_are_another_job_and_the_same_volume(plan: Plan) -> None:
    (first, *others) = plan.models
    name, size, _ = first.weights.files[0]
    files = ((name, size, "0" * 64), *first.weights.files[1:])
    changed = replace(first.weights, files=files, folder="0" * 12 + "-" + "1" * 12 + "/from-a-hub")
    before = recorded_of(plan)
    after = recorded_of(replace(plan, models=(replace(first, weights=changed), *others)))

    def names(recorded: dict[str, Any], model: str, step: str) -> str:
        name: str = job(recorded, model, step)["metadata"]["name"]
        return name

    for step in ("populate", "collect"):
        assert names(before, first.name, step) != names(after, first.name, step)
        assert names(before, "from-a-server", step) == names(after, "from-a-server", step)
        assert len(names(after, first.name, step)) <= 63
    claims = [one[f"{first.name}-weights-claim"].inputs["metadata"] for one in (before, after)]
    assert claims[0] == claims[1]


def test_jobs_of_the_longest_names_still_have_names_that_fit() -> None:
    plan = plan_environment(Workspace(ROOT), "local")
    (first, *others) = plan.models
    longest = replace(first, name="m" * 40)
    recorded = recorded_of(replace(plan, models=(longest, *others)))
    jobs = [
        one.inputs["metadata"]["name"] for one in recorded.values() if one.type.endswith(":Job")
    ]
    assert max(map(len, jobs)) <= 63


def test_what_is_collected_leaves_the_served_revision(plan: Plan, recorded: dict[str, Any]) -> None:
    for model in plan.models:
        data = recorded[f"{model.name}-weights-old-tools"].inputs["data"]
        assert json.loads(data["settings.json"]) == {
            "in_use": [model.weights.folder.partition("/")[0]],
            "previous": 0,
        }
