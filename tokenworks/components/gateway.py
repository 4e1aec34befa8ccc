"""The gateway: Envoy pods that end TLS, behind an internal load balancer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Secret, Service
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from tokenworks.components.gateway_pod import TLS_PORT_NAME, GatewayVolumes, gateway_pod
from tokenworks.components.workload import Workload
from tokenworks.naming import (
    ENGINE_ROLE,
    GATEWAY_SERVICE,
    MODEL_LABEL,
    RATE_LIMIT_ROLE,
    ROLE_LABEL,
)
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.platforms.load_balancer import LoadBalancer

HTTPS_PORT = 443
WAIT_FOR = "pulumi.com/waitFor"
HAS_ADDRESS = "jsonpath={.status.loadBalancer.ingress}"
"""The provider would otherwise watch endpoints for ten more seconds, which the Deployment's own
readiness makes needless; pulumi-kubernetes ``pkg/await/service.go``."""
DNS_PORT = 53


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    """What the gateway serves, and what it is made from."""

    plan: GatewayPlan
    config_files: Mapping[str, str]
    key_file: pulumi.Input[str]
    credentials_file: pulumi.Input[str] | None
    certificate: pulumi.Input[str]
    private_key: pulumi.Input[str]
    load_balancer: LoadBalancer
    labels: Mapping[str, str]
    namespace: pulumi.Input[str]
    engines_namespace: pulumi.Input[str]
    priority_class: pulumi.Input[str]


class Gateway(Workload):
    """The one door to every model, with the only load balancer there is."""

    address: pulumi.Output[str]

    def __init__(
        self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "tokenworks:serving:Gateway",
            name,
            opts,
            namespace=args.namespace,
            labels=args.labels,
            selector={ROLE_LABEL: args.labels[ROLE_LABEL]},
        )
        self._args = args
        self._deployment()
        self.address = self._service().status.load_balancer.ingress[0].ip
        self.disruption_budget()
        self._openings()
        self.register_outputs({"address": self.address})

    def _volumes(self) -> GatewayVolumes:
        """Fixed names: Envoy reads changes without a restart, so no pod has to be replaced."""
        config = ConfigMap(
            f"{self.name}-config",
            metadata=self.metadata(f"{self.name}-config"),
            data=dict(self._args.config_files),
            opts=self.child(),
        )
        keys = Secret(
            f"{self.name}-keys",
            metadata=self.metadata(f"{self.name}-keys"),
            string_data={"keys.yaml": pulumi.Output.secret(self._args.key_file)},
            opts=self.child(),
        )
        certificate = Secret(
            f"{self.name}-certificate",
            metadata=self.metadata(f"{self.name}-certificate"),
            type="kubernetes.io/tls",
            string_data={
                "tls.crt": self._args.certificate,
                "tls.key": pulumi.Output.secret(self._args.private_key),
            },
            opts=self.child(),
        )
        return GatewayVolumes(
            config=config.metadata.name,
            keys=keys.metadata.name,
            credentials=self._credentials(),
            tls=certificate.metadata.name,
        )

    def _credentials(self) -> pulumi.Input[str] | None:
        """The Secret with what managed APIs ask for, where there are any."""
        if self._args.credentials_file is None:
            return None
        created = Secret(
            f"{self.name}-credentials",
            metadata=self.metadata(f"{self.name}-credentials"),
            string_data={"credentials.yaml": pulumi.Output.secret(self._args.credentials_file)},
            opts=self.child(),
        )
        return created.metadata.name

    def _deployment(self) -> Deployment:
        plan = self._args.plan
        return Deployment(
            f"{self.name}-deployment",
            metadata=self.metadata(self.name),
            spec={
                "replicas": plan.replicas.value,
                "selector": {"match_labels": self.selector},
                "strategy": {
                    "type": "RollingUpdate",
                    "rolling_update": {"max_surge": 1, "max_unavailable": 0},
                },
                "revision_history_limit": 3,
                "template": {
                    "metadata": {"labels": dict(self._args.labels)},
                    "spec": gateway_pod(
                        plan,
                        selector=self.selector,
                        priority_class=self._args.priority_class,
                        volumes=self._volumes(),
                    ),
                },
            },
            opts=self.child(),
        )

    def _service(self) -> Service:
        balancer = self._args.load_balancer
        return Service(
            f"{self.name}-service",
            metadata={
                **self.metadata(GATEWAY_SERVICE),
                "annotations": {**balancer.annotations, WAIT_FOR: HAS_ADDRESS},
            },
            spec={
                "type": "LoadBalancer",
                "load_balancer_class": balancer.class_name,
                "load_balancer_source_ranges": list(balancer.source_ranges),
                "allocate_load_balancer_node_ports": balancer.needs_node_ports,
                "external_traffic_policy": "Local",
                "selector": self.selector,
                "ports": [{"name": "https", "port": HTTPS_PORT, "target_port": TLS_PORT_NAME}],
            },
            opts=self.child(),
        )

    def _openings(self) -> None:
        """In: callers, to the TLS port. Out: engines, DNS, and what the plan needs besides."""
        plan = self._args.plan
        self._opening(
            "from-callers",
            {
                "policy_types": ["Ingress"],
                "ingress": [
                    {
                        "from_": [
                            {"ip_block": {"cidr": cidr}}
                            for cidr in self._args.load_balancer.source_ranges
                        ],
                        "ports": [{"protocol": "TCP", "port": plan.tls_port}],
                    }
                ],
            },
        )
        engine_ports = sorted({model.port for model in plan.models})
        to_engines = {
            "to": [
                {
                    "namespace_selector": _namespace(self._args.engines_namespace),
                    "pod_selector": {
                        "match_labels": {ROLE_LABEL: ENGINE_ROLE},
                        "match_expressions": [{"key": MODEL_LABEL, "operator": "Exists"}],
                    },
                }
            ],
            "ports": [{"protocol": "TCP", "port": port} for port in engine_ports],
        }
        to_dns = {
            "to": [
                {
                    "namespace_selector": _namespace("kube-system"),
                    "pod_selector": {"match_labels": {"k8s-app": "kube-dns"}},
                }
            ],
            "ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")],
        }
        self._opening("to-engines", {"policy_types": ["Egress"], "egress": [to_engines, to_dns]})
        if plan.rate_limit:
            to_service = {
                "to": [{"pod_selector": {"match_labels": {ROLE_LABEL: RATE_LIMIT_ROLE}}}],
                "ports": [{"protocol": "TCP", "port": plan.rate_limit.port}],
            }
            self._opening("to-rate-limit", {"policy_types": ["Egress"], "egress": [to_service]})
        if plan.apis:
            # Their addresses change, so only the port can be said; Envoy checks who answers.
            ports = sorted({api.port for api in plan.apis})
            to_apis = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
            self._opening("to-apis", {"policy_types": ["Egress"], "egress": [to_apis]})

    def _opening(self, suffix: str, rules: Mapping[str, object]) -> None:
        NetworkPolicy(
            f"{self.name}-{suffix}",
            metadata=self.metadata(f"{self.name}-{suffix}"),
            spec={"pod_selector": {"match_labels": self.selector}, **rules},
            opts=self.child(),
        )


def _namespace(name: pulumi.Input[str]) -> dict[str, object]:
    return {"match_labels": {"kubernetes.io/metadata.name": name}}
