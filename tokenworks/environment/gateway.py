"""The gateway's section: who may call, what each may ask for, and where requests go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tokenworks.environment.section import Section
from tokenworks.environment.values import (
    Claim,
    Count,
    Hostname,
    HttpsUrl,
    Name,
    ObjectName,
    Percentage,
    RelativePath,
    SecretKey,
    Switch,
    UrlPath,
)

Text = Annotated[str, Field(strict=True, min_length=1)]


class SecretReference(Section):
    """Where a secret is kept; never the secret."""

    pulumi_secret: SecretKey = Field(
        description="Key in the serving stack's settings, set with `pulumi config set --secret`."
    )


class Tenant(Section):
    """A caller with keys, rights and budgets of its own."""

    name: Name = Field(description="Name of the caller, seen in logs and metrics.")
    api_keys: Annotated[tuple[SecretReference, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="API keys that are accepted; two while one is being replaced. May be left out "
        "where the tenant comes with tokens of gateway.jwt.",
    )
    models: Annotated[tuple[Name, ...], Field(min_length=1)] | None = Field(
        default=None, description="Models that the tenant may use; left out, all of them."
    )
    requests_per_minute: Count | None = Field(
        default=None, description="Requests in a minute, over all gateways; left out, no limit."
    )
    tokens_per_minute: Count | None = Field(
        default=None,
        description="Prompt and output tokens in a minute, over all gateways; left out, no limit.",
    )
    default_max_tokens: Count | None = Field(
        default=None,
        description="Longest answer of a request that states no max_tokens; it is written into the "
        "request. Left out, such an answer may be as long as the model allows.",
    )
    restricted: Switch = Field(
        default=False, description="Whether every request must stay self-hosted."
    )
    cache: Literal["isolated", "shared"] = Field(
        default="isolated",
        description="isolated: no other tenant can tell from cached prefixes what was asked, and "
        "only chat is served, which can keep them apart; shared: one cache with all that share.",
    )


class Jwt(Section):
    """Tokens of an identity provider that are accepted beside API keys."""

    issuer: HttpsUrl = Field(description="The iss claim, such as https://login.example.com.")
    audiences: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        description="Values of the aud claim of which a token must carry one."
    )
    jwks: RelativePath = Field(
        description="The issuer's public keys (JWKS), beside this file; nothing is fetched."
    )
    tenant_claim: Claim = Field(description="The claim that names the tenant.")


class ClientCertificates(Section):
    """Certificates by which callers prove who they are, beside their keys."""

    ca: RelativePath = Field(
        description="Certificates in PEM of the authorities that sign callers', beside this file."
    )
    required: Switch = Field(
        description="Whether a caller without a certificate is refused; one of another authority "
        "always is."
    )


class CertificateIssuer(Section):
    """Whoever signs the gateway's certificate inside the cluster, through cert-manager."""

    kind: Literal["Issuer", "ClusterIssuer"] = Field(
        description="ClusterIssuer, or Issuer for one in the gateway's own namespace."
    )
    name: ObjectName = Field(description="Its name; it must exist before `up`.")
    duration_days: Count = Field(default=90, description="How long a certificate is valid.")
    renew_before_days: Count = Field(
        default=30, description="How long before its end it is replaced; no stream is cut."
    )


class ManagedApi(Section):
    """A service elsewhere that speaks the OpenAI API."""

    name: Name = Field(description="Name by which fallbacks and rules refer to it.")
    host: Hostname = Field(description="Its host name; TLS on port 443 is required.")
    base_path: UrlPath = Field(default="/v1", description="What stands before /chat/completions.")
    model: Text = Field(description="The name that the service has for its model.")
    credential: SecretReference = Field(description="Its API key.")
    max_concurrent_requests: Count = Field(
        description="Requests at once from one gateway; more are refused."
    )


class Place(Section):
    """One of a model and a managed API."""

    model: Name | None = Field(default=None, description="A model of this environment.")
    api: Name | None = Field(default=None, description="A managed API of gateway.apis.")


class FallbackStep(Place):
    """Where a request goes when no step before it works."""

    answer: Text | None = Field(
        default=None, description="A fixed sentence, which can only be the last step."
    )


class Fallback(Section):
    """What answers for a model whose engines do not."""

    model: Name = Field(description="The model that is asked for.")
    steps: Annotated[tuple[FallbackStep, ...], Field(min_length=1)] = Field(
        description="Tried in this order: smaller models, managed APIs, a fixed answer."
    )


class Canary(Section):
    """A release that gets some of a model's requests."""

    model: Name = Field(description="The model that callers ask for.")
    release: Name = Field(description="The entry of `models` that answers instead.")
    percent: Percentage = Field(
        description="Its share of the requests; 0 leaves only callers who send `x-release`."
    )


class ShadowCopy(Section):
    """A release that gets copies of some of a model's requests; nobody sees its answers."""

    model: Name = Field(description="The model that callers ask for.")
    release: Name = Field(description="The entry of `models` that gets the copies.")
    percent: Percentage = Field(description="Share of the requests that are copied.")
    max_concurrent_requests: Count = Field(
        description="Copies at once from one gateway; more are dropped."
    )


class Rule(Section):
    """Requests that go elsewhere than their model says; the first rule that fits is taken."""

    name: Name = Field(description="Name of the rule, seen in logs.")
    model: Name = Field(description="The model that is asked for.")
    tenants: Annotated[tuple[Name, ...], Field(min_length=1)] | None = Field(
        default=None, description="Only requests of these tenants; left out, of all."
    )
    tokens_from: Count | None = Field(
        default=None, description="Only requests of at least so many tokens, by their size."
    )
    tokens_below: Count | None = Field(
        default=None, description="Only requests of fewer tokens, by their size."
    )
    to: Place = Field(description="Where they go instead.")


class Gateway(Section):
    """The one door: a TLS gateway behind an internal load balancer."""

    hostname: Hostname = Field(description="DNS name that callers use and the certificate carries.")
    replicas: Count = Field(default=2, description="Gateway pods; two survive a node.")
    max_request_seconds: Count = Field(
        default=600, description="Longest a request may take, stream included."
    )
    tenants: Annotated[tuple[Tenant, ...], Field(min_length=1)] = Field(
        description="Callers; without a key or token nobody is served."
    )
    jwt: Jwt | None = Field(
        default=None, description="An identity provider whose tokens name a tenant."
    )
    client_certificates: ClientCertificates | None = Field(
        default=None, description="Left out, callers are asked for no certificate."
    )
    certificate_issuer: CertificateIssuer | None = Field(
        default=None,
        description="A cert-manager issuer that signs the gateway's certificate, instead of one "
        "that is given with its key.",
    )
    proxy_protocol: Switch = Field(
        default=False,
        description="Whether the load balancer puts the PROXY protocol before each connection, so "
        "that callers' addresses are known; connections without it are then refused.",
    )
    apis: tuple[ManagedApi, ...] = Field(
        default=(), description="Managed services that may answer instead of engines."
    )
    fallbacks: tuple[Fallback, ...] = Field(
        default=(), description="What answers for a model whose engines do not."
    )
    canaries: tuple[Canary, ...] = Field(
        default=(), description="Releases that get a share of a model's requests."
    )
    shadows: tuple[ShadowCopy, ...] = Field(
        default=(), description="Releases that get copies of a model's requests."
    )
    rules: tuple[Rule, ...] = Field(
        default=(), description="Requests that go elsewhere than their model says."
    )
