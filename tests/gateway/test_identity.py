"""Tokens of an identity provider beside API keys."""

from __future__ import annotations

import base64
import dataclasses
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tokenworks.plan.gateway_types import JwtIssuer

from .engine import SimulatedEngine
from .harness import KEY, Gateway, engines_of, plan_for, refusal, running, until

pytestmark = pytest.mark.envoy

ISSUER = "https://login.example.com"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return encoded(value.to_bytes(32, "big"))


@dataclasses.dataclass(frozen=True)
class Signer:
    """An identity provider with one key."""

    name: str
    key: ec.EllipticCurvePrivateKey = dataclasses.field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def jwks(self) -> str:
        public = self.key.public_key().public_numbers()
        key = {
            "kty": "EC",
            "crv": "P-256",
            "alg": "ES256",
            "kid": self.name,
            "x": number(public.x),
            "y": number(public.y),
        }
        return json.dumps({"keys": [key]})

    def token(self, **changes: Any) -> str:
        claims = {
            "iss": ISSUER,
            "aud": "inference",
            "exp": int(time.time()) + 600,
            "tenant": "search",
            **changes,
        }
        head = {"alg": "ES256", "kid": self.name, "typ": "JWT"}
        kept = {name: value for name, value in claims.items() if value is not None}
        text = ".".join(encoded(json.dumps(part).encode()) for part in (head, kept))
        r, s = decode_dss_signature(self.key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


PROVIDER = Signer("first")
STRANGER = Signer("first")


def issuer(signer: Signer) -> JwtIssuer:
    return JwtIssuer(
        issuer=ISSUER, audiences=("inference",), tenant_claim="tenant", jwks=signer.jwks()
    )


@pytest.fixture(scope="module")
def started(engine: SimulatedEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    plan = plan_for([engines_of("alpha", engine.port)], jwt=issuer(PROVIDER))
    with running(tmp_path_factory.mktemp("identity"), plan) as gateway:
        yield gateway


@pytest.fixture
def trusting(started: Gateway, engine: SimulatedEngine) -> Gateway:
    engine.received.clear()
    return started


BODY = {"model": "alpha"}


def test_a_token_names_its_tenant_and_stays_at_the_gateway(
    trusting: Gateway, engine: SimulatedEngine
) -> None:
    for tenant in ("search", "support"):
        assert trusting.post(BODY, key=PROVIDER.token(tenant=tenant)).status == 200
    assert [one.headers["x-tenant-id"] for one in engine.received] == ["search", "support"]
    assert not [one for one in engine.received if "authorization" in one.headers]


def test_keys_are_accepted_beside_tokens(trusting: Gateway) -> None:
    assert trusting.post(BODY, key=KEY).status == 200
    assert refusal(trusting.post(BODY, key="wrong")) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "token",
    [
        PROVIDER.token(exp=int(time.time()) - 3600),
        PROVIDER.token(exp=None),
        PROVIDER.token(iss="https://elsewhere.example.com"),
        PROVIDER.token(aud="another-service"),
        PROVIDER.token(tenant=None),
        STRANGER.token(),
        PROVIDER.token()[:-4] + "AAAA",
        encoded(b'{"alg":"none"}') + "." + PROVIDER.token().split(".")[1] + ".",
        "eyJ",
    ],
    ids=["expired", "endless", "issuer", "audience", "nobody", "signer", "cut", "none", "no token"],
)
def test_any_other_token_opens_nothing(
    trusting: Gateway, engine: SimulatedEngine, token: str
) -> None:
    reply = trusting.post(BODY, key=token)
    assert refusal(reply)[0] in {401, 403}
    assert engine.received == []


def test_a_token_of_an_unknown_tenant_opens_nothing(
    trusting: Gateway, engine: SimulatedEngine
) -> None:
    token = PROVIDER.token(tenant="stranger")
    assert refusal(trusting.post(BODY, key=token)) == (403, "model_not_allowed")
    headers = {"authorization": f"Bearer {token}"}
    listed = trusting.request("GET", "/v1/models", None, headers)
    assert refusal(listed) == (403, "model_not_allowed")
    assert engine.received == []


def test_a_token_does_not_carry_a_tenant_from_a_header(
    trusting: Gateway, engine: SimulatedEngine
) -> None:
    headers = {"x-tenant-id": "support"}
    assert trusting.post(BODY, key=PROVIDER.token(), headers=headers).status == 200
    assert engine.received[0].headers["x-tenant-id"] == "search"


def test_the_provider_s_keys_change_without_cutting_a_stream(trusting: Gateway) -> None:
    new = Signer("second")
    plan = dataclasses.replace(trusting.plan, jwt=issuer(new))
    body = {"model": "alpha", "simulate": {"events": 25, "gap_seconds": 0.1}}
    with trusting.streaming(body) as stream:
        trusting.config.publish(trusting.files(plan))
        until(lambda: trusting.post(BODY, key=new.token()).status == 200, what="the new key")
        assert trusting.post(BODY, key=PROVIDER.token()).status == 401
        trusting.config.publish(trusting.files(trusting.plan))
        until(lambda: trusting.post(BODY, key=PROVIDER.token()).status == 200, what="the old key")
    assert not stream.broken
