"""What the programs register for `local`, seen without a cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tokenworks.check.recording import RecordedResource
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.operations.record import record_environment
from tokenworks.plan.gateway_types import ClientCertificates, Issuer
from tokenworks.plan.types import Decided, ModelPlan, Plan
from tokenworks.planning import plan_environment, resolve_loaded
from tokenworks.platforms.hosts import load_balancer
from tokenworks.render_gateway import CLIENT_CA_FILE, GATEWAY_MOUNTS
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_environment(Workspace(ROOT), "local")


@pytest.fixture(scope="module")
def recorded(plan: Plan) -> list[RecordedResource]:
    recordings = record_environment(Workspace(ROOT), plan)
    return [one for recording in recordings.values() for one in recording.resources]


def inputs(recorded: list[RecordedResource], name: str) -> Any:
    (found,) = [one for one in recorded if one.name == name]
    return found.inputs


def pod(recorded: list[RecordedResource], model: ModelPlan) -> Any:
    return inputs(recorded, f"{model.name}-deployment")["spec"]["template"]["spec"]


def metadata(one: RecordedResource) -> Any:
    return one.inputs["metadata"]


def of_kind(recorded: list[RecordedResource], kind: str) -> list[Any]:
    return [one.inputs for one in recorded if one.type.endswith(f":{kind}")]


def test_deployments_carry_what_was_planned(plan: Plan, recorded: list[RecordedResource]) -> None:
    for model in plan.models:
        spec = inputs(recorded, f"{model.name}-deployment")["spec"]
        assert spec["replicas"] == model.replicas.value
        assert spec["progressDeadlineSeconds"] == model.progress_deadline_seconds.value
        assert spec["strategy"]["rollingUpdate"] == {
            "maxSurge": model.rollout.value.max_surge,
            "maxUnavailable": model.rollout.value.max_unavailable,
        }
        assert "runtimeClassName" not in pod(recorded, model)
        (engine,) = pod(recorded, model)["containers"]
        assert tuple(engine["command"]) == model.command
        assert engine["resources"]["limits"]["nvidia.com/gpu"] == str(model.gpus_per_replica)
        for name, probe in (
            ("startupProbe", model.startup_probe.value),
            ("readinessProbe", model.readiness_probe.value),
            ("livenessProbe", model.liveness_probe.value),
        ):
            kill = probe.kill_seconds
            assert engine[name] == {
                **({"terminationGracePeriodSeconds": kill} if kill else {}),
                "httpGet": {"path": probe.path, "port": "http"},
                "periodSeconds": probe.period_seconds,
                "timeoutSeconds": probe.timeout_seconds,
                "failureThreshold": probe.failure_threshold,
            }


def test_the_engine_reads_the_file_that_was_planned(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    for model in plan.models:
        text = inputs(recorded, f"{model.name}-config")["data"]["config.yaml"]
        assert YAML(typ="safe").load(text) == model.config_file.value


def test_an_engine_can_write_to_its_caches_and_to_nothing_else(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    for model in plan.models:
        spec = pod(recorded, model)
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        (engine,) = spec["containers"]
        assert engine["securityContext"]["readOnlyRootFilesystem"] is True
        writable = {
            m["name"]: m["mountPath"] for m in engine["volumeMounts"] if not m.get("readOnly")
        }
        assert writable == {"shared-memory": "/dev/shm", "cache": "/cache", "scratch": "/tmp"}  # noqa: S108
        assert volumes["shared-memory"]["emptyDir"] == {
            "medium": "Memory",
            "sizeLimit": f"{model.shared_memory_mib.value}Mi",
        }
        assert volumes["cache"]["emptyDir"] == {"sizeLimit": f"{model.cache_volume_gib.value}Gi"}
        scratch = {"sizeLimit": f"{model.scratch_volume_gib.value}Gi"}
        assert volumes["scratch"]["emptyDir"] == scratch
        homes = {e["name"]: e["value"] for e in engine["env"] if e["value"].startswith("/")}
        assert {"HOME", "HF_HOME", "TRITON_CACHE_DIR"} <= set(homes)
        assert all(value.startswith("/cache") for value in homes.values())


def test_the_weights_gate_has_the_memory_that_its_threads_need(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    for model in plan.models:
        (gate,) = pod(recorded, model)["initContainers"]
        memory = f"{model.weights_gate_memory_mib.value}Mi"
        cpu = f"{model.weights_gate_cpu_millicores.value}m"
        assert gate["resources"] == {
            "requests": {"cpu": cpu, "memory": memory},
            "limits": {"memory": memory},
        }


def test_an_engine_tells_nobody_and_asks_no_hub(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    for model in plan.models:
        (engine,) = pod(recorded, model)["containers"]
        variables = {e["name"]: e["value"] for e in engine["env"]}
        assert variables["TRTLLM_NO_USAGE_STATS"] == "1"
        assert variables["DO_NOT_TRACK"] == "1"
        assert variables["HF_HUB_OFFLINE"] == "1"


def test_every_pod_is_restricted_and_finishes_what_it_began(
    recorded: list[RecordedResource],
) -> None:
    deployments = of_kind(recorded, "Deployment")
    assert len(deployments) == 5
    for deployment in deployments:
        spec = deployment["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        for forbidden in ("hostIPC", "hostNetwork", "hostPID"):
            assert forbidden not in spec
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            assert container["securityContext"]["capabilities"] == {"drop": ("ALL",)}
            assert "memory" in container["resources"]["limits"]
        (main,) = spec["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert main[probe]["timeoutSeconds"] >= 5
        assert [one["topologyKey"] for one in spec["topologySpreadConstraints"]] == [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
        ]
        # What answers callers finishes what it began; counting a lease takes a millisecond.
        if main["name"] not in ("rate-limit", "valkey"):
            assert main["lifecycle"]["preStop"]
            assert spec["terminationGracePeriodSeconds"] > 600


def test_two_gateways_never_share_a_node_and_engines_go_where_gpus_are(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    """Compared within one revision, over nodes that could take a pod: else a rollout would hang."""
    rules = {
        name: [
            one["whenUnsatisfiable"]
            for one in inputs(recorded, f"{name}-deployment")["spec"]["template"]["spec"][
                "topologySpreadConstraints"
            ]
        ]
        for name in ("gateway", "rate-limit", plan.models[0].name)
    }
    hard = ["DoNotSchedule", "ScheduleAnyway"]
    assert rules == {
        "gateway": hard,
        "rate-limit": hard,
        plan.models[0].name: ["ScheduleAnyway", "ScheduleAnyway"],
    }
    for deployment in of_kind(recorded, "Deployment"):
        for one in deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]:
            assert one["maxSkew"] == 1
            assert one["matchLabelKeys"] == ("pod-template-hash",)
            assert one["nodeTaintsPolicy"] == "Honor"
            selector = deployment["spec"]["selector"]["matchLabels"]
            assert one["labelSelector"]["matchLabels"] == selector


def test_the_gateway_and_its_budgets_start_live_and_end_as_planned(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    pods = plan.gateway_pods
    assert pods.rate_limit
    for name, probes in (
        ("gateway", pods.probes),
        ("rate-limit", pods.rate_limit.service.probes),
        ("rate-limit-store", pods.rate_limit.store.probes),
    ):
        spec = inputs(recorded, f"{name}-deployment")["spec"]["template"]["spec"]
        (main,) = spec["containers"]
        named = {port["name"] for port in main["ports"]}
        for asked, probe in (
            (main["startupProbe"], probes.startup.value),
            (main["readinessProbe"], probes.readiness.value),
            (main["livenessProbe"], probes.liveness.value),
        ):
            assert probe.port in named
            assert asked["failureThreshold"] == probe.failure_threshold
            assert ("httpGet" in asked) == (probe.path is not None)
        # The store has no page to ask for; the other two say themselves whether they are ready.
        for asked in (main["startupProbe"], main["readinessProbe"]):
            assert ("httpGet" in asked) == (name != "rate-limit-store")
        # A gateway that drains answers /ready with 503, and a service whose store is away says so
        # on its page: neither must be killed for it.
        paths = {probes.readiness.value.path, probes.startup.value.path}
        assert "tcpSocket" in main["livenessProbe"] or probes.liveness.value.path not in paths
    # The system takes connections for a process that hangs.
    assert pods.probes.liveness.value.path


def gateway_volumes(recorded: list[RecordedResource]) -> tuple[dict[str, Any], dict[str, str]]:
    """Volumes of the gateway's pod, and where each is mounted, by name."""
    spec = inputs(recorded, "gateway-deployment")["spec"]["template"]["spec"]
    (envoy,) = spec["containers"]
    mounts = {one["name"]: one["mountPath"] for one in envoy["volumeMounts"]}
    return {one["name"]: one for one in spec["volumes"]}, mounts


def test_the_authorities_of_callers_come_by_a_volume_of_their_own(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    """Envoy watches its root, so they change without anything else; nobody else gets one."""
    assert "client-ca" not in gateway_volumes(recorded)[0]
    callers = ClientCertificates(ca="the authorities", required=True)
    asking = replace(plan, gateway=replace(plan.gateway, client_certificates=callers))
    recordings = record_environment(Workspace(ROOT), asking)
    found = [one for recording in recordings.values() for one in recording.resources]
    assert inputs(found, "gateway-client-ca")["data"] == {CLIENT_CA_FILE: "the authorities"}
    volumes, mounts = gateway_volumes(found)
    assert volumes["client-ca"]["configMap"]["name"] == "gateway-client-ca"
    assert mounts["client-ca"] == GATEWAY_MOUNTS.client_ca
    assert mounts.keys() == volumes.keys() - {"tmp"}


def test_gateways_may_ask_a_stopping_rate_limit_service_and_wait_for_no_store(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    pods = plan.gateway_pods.rate_limit
    assert pods
    service = inputs(recorded, "rate-limit-deployment")["spec"]["template"]["spec"]
    delay = service["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert delay == pods.service.stop_delay_seconds.value > 0
    assert service["terminationGracePeriodSeconds"] > delay
    store = inputs(recorded, "rate-limit-store-deployment")["spec"]
    assert store["replicas"] == 1
    assert "lifecycle" not in store["template"]["spec"]["containers"][0]


def test_a_pod_survives_a_drained_node(recorded: list[RecordedResource]) -> None:
    budgets = {
        one["metadata"]["name"]: one["spec"] for one in of_kind(recorded, "PodDisruptionBudget")
    }
    deployments = {one["metadata"]["name"]: one["spec"] for one in of_kind(recorded, "Deployment")}
    # One store at a time; its counters of a minute may be lost, as gateways keep to shares then.
    assert deployments.pop("rate-limit-store")["strategy"] == {"type": "Recreate"}
    assert set(budgets) == set(deployments)
    for name, spec in budgets.items():
        assert spec["maxUnavailable"] == 1
        assert spec["selector"] == deployments[name]["selector"]
        assert deployments[name]["replicas"] > 1


def test_names_are_fixed_or_carry_the_hash_of_their_content(
    recorded: list[RecordedResource],
) -> None:
    for one in recorded:
        if one.custom and one.type.startswith("kubernetes:"):
            assert metadata(one)["name"], one.name
    for one in of_kind(recorded, "ConfigMap"):
        name = one["metadata"]["name"]
        assert one.get("immutable") is True or name == "gateway-config"


def test_secrets_are_secret_to_the_engine_that_keeps_the_state(
    recorded: list[RecordedResource],
) -> None:
    secrets = [one for one in recorded if one.type.endswith(":Secret")]
    assert {one.name for one in secrets} == {"gateway-keys", "gateway-certificate"}
    for one in secrets:
        assert one.secrets


def test_the_one_load_balancer_is_internal_and_admits_whom_the_network_admits(
    recorded: list[RecordedResource],
) -> None:
    services = of_kind(recorded, "Service")
    (service,) = [one for one in services if one["spec"]["type"] == "LoadBalancer"]
    spec = service["spec"]

    assert spec["loadBalancerClass"] == "tokenworks.dev/simulated-internal"
    # Callers' own addresses arrive, so the same ranges can be held against them in both places.
    assert spec["externalTrafficPolicy"] == "Local"
    ranges = spec["loadBalancerSourceRanges"]
    assert ranges == ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
    (way,) = inputs(recorded, "gateway-from-callers")["spec"]["ingress"]
    assert tuple(one["ipBlock"]["cidr"] for one in way["from"]) == ranges
    assert [one["port"] for one in spec["ports"]] == [443]


def test_a_cluster_that_exists_gets_what_its_load_balancer_reads() -> None:
    name, folder = "certificate-from-an-issuer", ROOT / "tests" / "cases" / "environments" / "good"
    hosted = resolve_loaded(load_environment(name, folder), read_lock(ROOT / "stacks"))
    assert hosted.cluster
    balancer = load_balancer(hosted.cluster)
    assert balancer.annotations == {"kube-vip.io/loadbalancerIPs": "10.0.0.9"}
    assert balancer.source_ranges == ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")


def test_an_issuer_signs_the_certificate_instead_of_one_that_is_given(
    plan: Plan, recorded: list[RecordedResource]
) -> None:
    issuer = Issuer(
        kind="ClusterIssuer",
        name="internal-ca",
        duration_hours=Decided(2160, "asked for"),
        renew_before_hours=Decided(720, "asked for"),
    )
    issued = replace(plan, gateway=replace(plan.gateway, issuer=issuer))
    recordings = record_environment(Workspace(ROOT), issued)
    given = {one["metadata"]["name"] for one in of_kind(recorded, "Secret")}
    recorded = [one for recording in recordings.values() for one in recording.resources]
    assert "gateway-certificate" not in {
        one.name for one in recorded if one.type.endswith(":Secret")
    }
    (certificate,) = of_kind(recorded, "Certificate")
    assert certificate["apiVersion"] == "cert-manager.io/v1"
    assert certificate["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Ready"}
    spec = certificate["spec"]
    assert spec["dnsNames"] == (plan.gateway.hostname,)
    assert (spec["duration"], spec["renewBefore"]) == ("2160h", "720h")
    assert spec["privateKey"]["rotationPolicy"] == "Always"
    assert spec["issuerRef"] == {
        "group": "cert-manager.io",
        "kind": "ClusterIssuer",
        "name": "internal-ca",
    }
    pod_spec = inputs(recorded, "gateway-deployment")["spec"]["template"]["spec"]
    (mounted,) = [one["secret"] for one in pod_spec["volumes"] if one["name"] == "tls"]
    assert mounted["secretName"] == spec["secretName"]
    # Else the one that is given later would be refused: cert-manager leaves what it wrote behind.
    assert "gateway-certificate" in given
    assert spec["secretName"] not in given


def test_a_given_certificate_needs_no_issuer(recorded: list[RecordedResource]) -> None:
    assert of_kind(recorded, "Certificate") == []


def test_every_object_of_ours_says_whose_it_is(recorded: list[RecordedResource]) -> None:
    for one in recorded:
        if one.custom and one.type.startswith("kubernetes:"):
            labels = metadata(one)["labels"]
            assert labels["app.kubernetes.io/part-of"] == "tokenworks", one.name
            assert labels["tokenworks.dev/environment"] == "local", one.name
