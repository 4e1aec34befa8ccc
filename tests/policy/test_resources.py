from __future__ import annotations

import pulumi
from hypothesis import given
from hypothesis import strategies as st
from pulumi_policy.proxy import unknown_checking_proxy

from policy.objects import objects_in
from policy.resources import UNKNOWN, Resource, key_path, number, peek
from tests.policy.policy_cases import UNKNOWN_ON_THE_WIRE, as_secrets, on_the_wire

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31)
    | st.text(max_size=5)
    | st.just(UNKNOWN)
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)
_PROPERTIES = st.dictionaries(st.text(max_size=4), _VALUES, max_size=4)


def plain(raw: object) -> object:
    if isinstance(raw, dict):
        return {key: plain(value) for key, value in raw.items()}
    return tuple(plain(value) for value in raw) if isinstance(raw, list) else raw


@given(_PROPERTIES)
def test_every_leaf_is_read_through_the_packs_proxies(properties: dict[str, object]) -> None:
    proxied = unknown_checking_proxy(on_the_wire(properties))
    assert Resource.of("t", "n", proxied).properties == plain(properties)


@given(_PROPERTIES)
def test_a_secret_reads_like_any_value_and_is_remembered(properties: dict[str, object]) -> None:
    resource = Resource.of("t", "n", as_secrets(properties))
    assert resource.properties == plain(properties)
    for key, value in properties.items():
        assert resource.is_secret(key_path(key)) is (value is not UNKNOWN)


def test_numbers_of_the_wire_are_whole_again() -> None:
    properties = Resource.of("t", "n", {"port": 8000.0, "share": 0.5, "on": True}).properties
    assert properties == {"port": 8000, "share": 0.5, "on": True}
    assert isinstance(properties["port"], int)


def test_what_cannot_be_read_is_unknown() -> None:
    raw = {"asset": pulumi.StringAsset("x"), "output": object(), "text": UNKNOWN_ON_THE_WIRE}
    assert set(Resource.of("t", "n", raw).properties.values()) == {UNKNOWN}


def test_only_what_lies_below_a_secret_is_secret() -> None:
    resource = Resource.of("t", "n", {"spec": {"a": as_secrets({"b": {"c": [1]}}), "ab": 1}})
    assert resource.secrets == {"spec.a.b"}
    assert resource.is_secret("spec.a.b.c[0]")
    assert not resource.is_secret("spec.a")
    assert not resource.is_secret("spec.a.bc")


def test_key_paths_are_written_as_people_write_them() -> None:
    keys = ("spec", "ports", 0, "targetPort")
    assert key_path(*keys) == "spec.ports[0].targetPort"
    assert key_path("metadata", "labels", "a.b/c") == 'metadata.labels["a.b/c"]'


def test_looking_below_an_unknown_value_stays_unknown() -> None:
    assert peek({"a": UNKNOWN}, "a", "b", 0) is UNKNOWN
    assert peek({"a": {"b": 1}}, "a", "c", "d") is None
    assert peek({"a": (1,)}, "a", 1) is None


def test_only_whole_numbers_are_numbers() -> None:
    assert [number(value) for value in (8, "8", -1, "-1")] == [8, 8, -1, -1]
    assert [number(value) for value in (True, 0.5, "8.0", "http", "", None, UNKNOWN)] == [None] * 7


def test_a_kind_is_what_the_object_is_whatever_its_token() -> None:
    tokens = {
        "kubernetes:core/v1:Service": ("Service", ""),
        "kubernetes:v1:Service": ("Service", ""),
        "kubernetes:core/v1:ServicePatch": ("Service", ""),
        "kubernetes:extensions/v1beta1:Ingress": ("Ingress", "extensions"),
        "kubernetes:apps/v1:DeploymentPatch": ("Deployment", "apps"),
        "kubernetes:ray.io/v1:RayCluster": ("RayCluster", "ray.io"),
    }
    for token, expected in tokens.items():
        (thing,) = objects_in(Resource.of(token, "n", {}))
        assert (thing.kind, thing.group) == expected
        assert thing.partial is token.endswith("Patch")
