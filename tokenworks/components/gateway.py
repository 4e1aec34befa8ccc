"""The gateway: Envoy pods that end TLS, behind an internal load balancer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Secret, Service

from tokenworks.components.gateway_certificate import GivenCertificate, certificate_secret
from tokenworks.components.gateway_pod import GatewayVolumes, gateway_pod
from tokenworks.components.workload import TO_DNS, WAIT_FOR, Workload, namespace_selector
from tokenworks.naming import (
    ENGINE_ROLE,
    GATEWAY_SERVICE,
    MODEL_LABEL,
    RATE_LIMIT_ROLE,
    ROLE_LABEL,
)
from tokenworks.plan.gateway_pods import HTTPS_PORT_NAME, GatewayPods
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.platforms.load_balancer import LoadBalancer
from tokenworks.render_gateway import CLIENT_CA_FILE

HTTPS_PORT = 443
HAS_ADDRESS = "jsonpath={.status.loadBalancer.ingress}"
"""The provider would otherwise watch endpoints for ten more seconds, which the Deployment's own
readiness makes needless; pulumi-kubernetes ``pkg/await/service.go``."""


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    """What the gateway serves, and what it is made from."""

    plan: GatewayPlan
    pods: GatewayPods
    config_files: Mapping[str, str]
    key_file: pulumi.Input[str]
    credentials_files: pulumi.Input[Mapping[str, str]] | None
    certificate: GivenCertificate | None
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
        ingress = self._service().status.load_balancer.ingress[0]
        by_name = args.load_balancer.address == "hostname"
        self.address = ingress.hostname if by_name else ingress.ip
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
        return GatewayVolumes(
            config=config.metadata.name,
            client_ca=self._client_ca(),
            keys=keys.metadata.name,
            credentials=self._credentials(),
            tls=certificate_secret(
                self, self._args.certificate, self._args.plan.issuer, self._args.plan.hostname
            ),
        )

    def _client_ca(self) -> pulumi.Input[str] | None:
        """The authorities of callers' certificates, apart from what else is configured."""
        clients = self._args.plan.client_certificates
        if clients is None:
            return None
        created = ConfigMap(
            f"{self.name}-client-ca",
            metadata=self.metadata(f"{self.name}-client-ca"),
            data={CLIENT_CA_FILE: clients.ca},
            opts=self.child(),
        )
        return created.metadata.name

    def _credentials(self) -> pulumi.Input[str] | None:
        """The Secret with what managed APIs ask for, where there are any."""
        if self._args.credentials_files is None:
            return None
        created = Secret(
            f"{self.name}-credentials",
            metadata=self.metadata(f"{self.name}-credentials"),
            string_data=pulumi.Output.secret(self._args.credentials_files),
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
                        self._args.pods,
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
                "ports": [{"name": "https", "port": HTTPS_PORT, "target_port": HTTPS_PORT_NAME}],
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                # The API server refuses to change it, and the provider does not know that
                # (pulumi-kubernetes ``provider/pkg/provider/diff.go``).
                replace_on_changes=["spec.loadBalancerClass"],
            ),
        )

    def _openings(self) -> None:
        """In: callers, to the TLS port. Out: engines, DNS, and what the plan needs besides."""
        plan = self._args.plan
        self._from_callers()
        self._to_engines()
        if plan.rate_limit:
            service = {ROLE_LABEL: RATE_LIMIT_ROLE}
            self._out("to-rate-limit", [_way([plan.rate_limit.port], [_pods(service)])])
        if plan.apis:
            # Their addresses change, so only the port can be said; Envoy checks who answers.
            self._out("to-apis", [_way(sorted({api.port for api in plan.apis}))])

    def _from_callers(self) -> None:
        ranges = [{"ip_block": {"cidr": cidr}} for cidr in self._args.load_balancer.seen_ranges]
        ports = [{"protocol": "TCP", "port": self._args.plan.tls_port}]
        way = {"from_": ranges, "ports": ports}
        self.opening("from-callers", {"policy_types": ["Ingress"], "ingress": [way]})

    def _to_engines(self) -> None:
        engines = {
            "namespace_selector": namespace_selector(self._args.engines_namespace),
            "pod_selector": {
                "match_labels": {ROLE_LABEL: ENGINE_ROLE},
                "match_expressions": [{"key": MODEL_LABEL, "operator": "Exists"}],
            },
        }
        ports = sorted({model.port for model in self._args.plan.models})
        self._out("to-engines", [_way(ports, [engines]), TO_DNS])

    def _out(self, suffix: str, ways: Sequence[Mapping[str, Any]]) -> None:
        self.opening(suffix, {"policy_types": ["Egress"], "egress": list(ways)})


def _pods(labels: Mapping[str, str]) -> dict[str, Any]:
    """Pods of the same namespace."""
    return {"pod_selector": {"match_labels": dict(labels)}}


def _way(ports: Sequence[int], to: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A way out to some ports; to anybody's where nobody is named."""
    listed = [{"protocol": "TCP", "port": port} for port in ports]
    return {"to": list(to), "ports": listed} if to else {"ports": listed}
