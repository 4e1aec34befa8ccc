"""No arrangement of words publishes an engine in silence, and none condemns what is good."""

from __future__ import annotations

import ipaddress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from policy import selectors
from policy.engines import PORTS
from policy.estate import ALONE, Estate
from policy.networks import is_private
from policy.resources import UNKNOWN, Resource
from policy.rule import Rule, Verdict
from policy.rules import (
    engines_admit_only_the_gateway,
    only_the_gateway_has_a_load_balancer,
    routes_lead_only_to_the_gateway,
)

E1 = only_the_gateway_has_a_load_balancer.RULE
E3 = routes_lead_only_to_the_gateway.RULE
E8 = engines_admit_only_the_gateway.RULE

SERVICE = "kubernetes:core/v1:Service"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
ENGINE_LABELS = {"tokenworks.dev/role": "engine"}
_GOOGLE = "networking.gke.io/load-balancer-type"
AWS = "service.beta.kubernetes.io/aws-load-balancer-"

_ENGINE_PORT = st.sampled_from(sorted(PORTS))
_OTHER_PORT = st.integers(1, 65535).filter(lambda port: port not in PORTS)
_SPELLED = st.sampled_from([int, str, float])
_TYPES = st.sampled_from(["LoadBalancer", "NodePort", "loadbalancer", "Nodeport", "LOADBALANCER"])
_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), min_size=1, max_size=3)
_IMAGES = st.sampled_from(
    ["vllm/vllm-openai", "docker.io/lmsysorg/sglang:v0.5.12", "nvcr.io/nim/meta/llama:1",
     "rayproject/ray-ml:2.9.0", "own/server@sha256:" + "0" * 64]
)  # fmt: skip
_ANNOTATIONS = st.dictionaries(
    st.sampled_from([f"{AWS}scheme", f"{AWS}type", f"{AWS}internal", _GOOGLE]),
    st.sampled_from(["internal", "Internal", "external", "internet-facing", "true", "nlb-ip"]),
)


def service(spec: dict[str, Any], **metadata: Any) -> Resource:
    return Resource.of(SERVICE, "s", {"metadata": metadata, "spec": spec})


def pod(labels: dict[str, str], **container: Any) -> Resource:
    spec = {"containers": [{"name": "c", **container}]}
    return Resource.of(
        "kubernetes:core/v1:Pod", "p", {"metadata": {"labels": labels}, "spec": spec}
    )


def serious(rule: Rule, resource: Resource, estate: Estate = ALONE) -> list[str]:
    found = rule.judge(resource, estate)
    return [one.key for one in found if one.verdict is not Verdict.WARN]


@st.composite
def ways_out(draw: st.DrawFn) -> dict[str, Any]:
    """Return the part of a Service's specification that lets it out of the cluster."""
    way = draw(st.sampled_from(["type", "addresses", "both"]))
    out: dict[str, Any] = {}
    if way != "addresses":
        out["type"] = draw(_TYPES)
    if way != "type":
        out["externalIPs"] = draw(st.lists(st.ip_addresses().map(str), min_size=1, max_size=2))
    return out


@st.composite
def engine_ports(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return ports of which one leads to an engine's, somehow written."""
    spell = draw(_SPELLED)
    engine = spell(draw(_ENGINE_PORT))
    engine = str(int(engine)) if isinstance(engine, float) and draw(st.booleans()) else engine
    one: dict[str, Any] = {"port": draw(_OTHER_PORT), "targetPort": engine}
    if draw(st.booleans()):
        one = {
            "port": engine,
            **draw(st.sampled_from([{}, {"targetPort": 0}, {"protocol": "TCP"}])),
        }
    others = draw(st.lists(_OTHER_PORT, max_size=2))
    ports = [{"port": other, "protocol": "UDP"} for other in others]
    ports.insert(draw(st.integers(0, len(ports))), one)
    return ports


@given(ways_out(), engine_ports(), _LABELS, _ANNOTATIONS)
def test_no_spelling_of_type_and_port_publishes_an_engine_in_silence(
    way: dict[str, Any], ports: list[dict[str, Any]], labels: dict[str, str], notes: dict[str, str]
) -> None:
    public = service({**way, "selector": labels, "ports": ports}, annotations=notes)
    web = pod(labels, image="nginx")
    for estate in (ALONE, Estate.of([public, web])):
        assert len(serious(E1, public, estate)) >= len(way)


@given(ways_out(), _LABELS, _LABELS, _IMAGES, _ANNOTATIONS)
def test_whatever_selects_an_engine_is_refused_where_all_is_known(
    way: dict[str, Any],
    selector: dict[str, str],
    more: dict[str, str],
    image: str,
    notes: dict[str, str],
) -> None:
    command = ["vllm", "serve"] if image.startswith("own/") else []
    engine = pod({**more, **selector}, image=image, command=command)
    public = service({**way, "selector": selector, "ports": [{"port": 80}]}, annotations=notes)
    assert len(serious(E1, public, Estate.of([public, engine]))) >= len(way)


@given(_TYPES, _LABELS, _OTHER_PORT)
def test_a_public_service_of_known_other_pods_is_never_condemned(
    type_: str, labels: dict[str, str], port: int
) -> None:
    public = service({"type": type_, "selector": labels, "ports": [{"port": port}]})
    estate = Estate.of([public, pod(labels, image="nginx"), pod({"app": "llm"}, image="sglang")])
    assert serious(E1, public, estate) == []


@given(_ANNOTATIONS, st.none() | st.sampled_from(["service.k8s.aws/nlb", "example.com/own", ""]))
def test_a_gateway_on_aws_is_internal_only_by_a_scheme_that_its_controller_reads(
    notes: dict[str, str], class_: str | None
) -> None:
    spec = {"type": "LoadBalancer", "selector": {"tokenworks.dev/role": "gateway"}}
    gateway = service({**spec, "loadBalancerClass": class_}, annotations=notes)
    cluster = Resource.of("aws:eks/cluster:Cluster", "c", {"version": "1.36"})
    handed_over = notes.get(f"{AWS}type") in ("external", "nlb-ip")
    reads = class_ == "service.k8s.aws/nlb" or (not class_ and handed_over)
    internal = reads and notes.get(f"{AWS}scheme") == "internal"
    assert (serious(E1, gateway, Estate.of([gateway, cluster])) == []) is internal


@given(st.lists(st.ip_addresses(network="0.0.0.0/0").map(str), min_size=1), st.integers(0, 32))
@example(["10.0.0.0", "172.16.0.0"], 12)
def test_sources_of_a_load_balancer_are_good_only_if_each_is_private(
    addresses: list[str], length: int
) -> None:
    ranges = [str(ipaddress.ip_network(f"{one}/{length}", strict=False)) for one in addresses]
    spec = {
        "type": "LoadBalancer",
        "loadBalancerClass": "example.com/own",
        "loadBalancerSourceRanges": ranges,
        "selector": {"tokenworks.dev/role": "gateway"},
    }
    assert (serious(E1, service(spec)) == []) is all(map(is_private, ranges))


_SOURCES = st.sampled_from(
    [{"podSelector": {"matchLabels": {"tokenworks.dev/role": "gateway"}}}, {"podSelector": {}},
     {"namespaceSelector": {}}, {"ipBlock": {"cidr": "0.0.0.0/0"}},
     {"ipBlock": {"cidr": "8.8.8.8"}}, {}, UNKNOWN,
     {"podSelector": {"matchLabels": {"app": "web"}}}]
)  # fmt: skip
_GATEWAY_ONLY: dict[str, Any] = {"podSelector": {"matchLabels": {"tokenworks.dev/role": "gateway"}}}


@given(st.lists(st.lists(_SOURCES, max_size=3), min_size=1, max_size=3))
def test_an_opening_of_engines_is_good_only_if_every_source_is_the_gateway(
    openings: list[list[Any]],
) -> None:
    rules = [{"from": sources} for sources in openings]
    spec = {"podSelector": {"matchLabels": ENGINE_LABELS}, "ingress": rules}
    found = serious(E8, Resource.of(POLICY, "n", {"spec": spec}))
    good = all(sources and all(one == _GATEWAY_ONLY for one in sources) for sources in openings)
    assert (found == []) is good


_REFERENCES = st.sampled_from(
    [
        lambda name, port: {"service": {"name": name, "port": {"number": port}}},
        lambda name, port: {"serviceName": name, "servicePort": port},
        lambda name, port: {"serviceName": name, "servicePort": str(port)},
        lambda name, port: {"name": name, "port": port},
    ]
)


def _path(backend: Any) -> Any:
    return {"rules": [{"http": {"paths": [{"backend": backend}]}}]}


_PLACES = st.sampled_from(
    [
        ("networking.k8s.io/v1:Ingress", lambda one: {"defaultBackend": one}),
        ("extensions/v1beta1:Ingress", _path),
        ("gateway.networking.k8s.io/v1:HTTPRoute", lambda one: {"rules": [{"backendRefs": [one]}]}),
        ("traefik.io/v1alpha1:IngressRoute", lambda one: {"routes": [{"services": [one]}]}),
        ("projectcontour.io/v1:HTTPProxy", lambda one: {"tcpproxy": {"services": [one]}}),
        ("route.openshift.io/v1:Route", lambda one: {"to": one}),
        ("example.com/v9:AnyRoute", lambda one: {"deep": {"er": [{"backends": [{"x": 1}, one]}]}}),
    ]
)  # fmt: skip


@given(_PLACES, _REFERENCES, _ENGINE_PORT, st.sampled_from(["llama", "gateway", "web"]))
def test_no_way_of_writing_a_route_leads_to_an_engines_port_in_silence(
    place: Any, reference: Any, port: int, name: str
) -> None:
    kind, spec = place
    route = Resource.of(f"kubernetes:{kind}", "r", {"spec": spec(reference(name, port))})
    assert len(serious(E3, route)) == 1


_VALUES = st.sampled_from(["x", "y", UNKNOWN])
_REQUIREMENTS = st.lists(
    st.builds(
        selectors.Requirement,
        st.sampled_from("ab"),
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        st.lists(_VALUES, min_size=1, max_size=2).map(tuple),
    ),
    max_size=3,
).map(tuple)


@given(_REQUIREMENTS, st.dictionaries(st.sampled_from("abc"), _VALUES))
def test_what_must_match_may_match(wanted: Any, labels: dict[str, Any]) -> None:
    if selectors.must_match(wanted, labels):
        assert selectors.may_match(wanted, labels)


@given(_REQUIREMENTS, st.dictionaries(st.sampled_from("abc"), _VALUES), st.data())
def test_learning_an_unknown_value_never_contradicts_what_was_certain(
    wanted: Any, labels: dict[str, Any], data: st.DataObject
) -> None:
    learned = {
        key: data.draw(st.sampled_from(["x", "y"])) if value is UNKNOWN else value
        for key, value in labels.items()
    }
    if selectors.must_match(wanted, labels):
        assert selectors.must_match(wanted, learned)
    if not selectors.may_match(wanted, labels):
        assert not selectors.may_match(wanted, learned)


@given(st.lists(_LABELS, max_size=8), _LABELS)
def test_the_estates_index_finds_the_pods_that_a_plain_search_finds(
    pods: list[dict[str, str]], selector: dict[str, str]
) -> None:
    estate = Estate.of([pod(labels, image="nginx") for labels in pods])
    found = estate.selected(selectors.of_labels(selector), None)
    wanted = [labels for labels in pods if selector.items() <= labels.items()]
    key = sorted
    assert sorted(key(one.spec.labels.items()) for one in found) == sorted(  # type: ignore[union-attr]
        key(labels.items()) for labels in wanted
    )
