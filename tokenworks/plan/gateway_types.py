"""What the gateway's plan is made of: who may ask for what, and where each request goes."""

from __future__ import annotations

from dataclasses import dataclass

from tokenworks.plan.types import Decided, Image


@dataclass(frozen=True, kw_only=True)
class HealthProbe:
    """A real inference that the gateway asks each engine for, and how long it may take."""

    path: str
    interval_seconds: int
    timeout_seconds: int
    failure_threshold: int


@dataclass(frozen=True, kw_only=True)
class ModelEngines:
    """The engines of one model behind one name, and how many requests may be inside at once.

    ``default_tokens`` is what a request reserves for its answer when it states no limit.
    """

    model: str
    host: str
    port: int
    max_concurrent_requests: int
    longest_tokens: int
    default_tokens: int
    probe: Decided[HealthProbe]


@dataclass(frozen=True, kw_only=True)
class ManagedApi:
    """A service elsewhere that speaks the same API, with the name that it has for its model."""

    name: str
    host: str
    port: int
    base_path: str
    model: str
    credential_secret: str
    max_concurrent_requests: int


@dataclass(frozen=True, kw_only=True)
class StaticAnswer:
    """The sentence that ends a model's fallback chain, always the same."""

    model: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One place where a request may be answered: a model's engines, a managed API or a sentence.

    ``rewrites`` says that the body must name another model there than the caller did.
    """

    kind: str
    name: str
    rewrites: bool

    @property
    def self_hosted(self) -> bool:
        """Whether a request stays with us there."""
        return self.kind != "api"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A share of a route's requests: the first step that works answers; weights add up to 100."""

    steps: tuple[Step, ...]
    weight: int


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """A model that gets copies of some requests; its answers are thrown away and not counted."""

    model: str
    percent: int
    max_concurrent_requests: int


@dataclass(frozen=True, kw_only=True)
class GatewayRoute:
    """Where requests go that meet every condition; of all routes that fit, the first is taken.

    ``tenants`` empty means all; ``prompt_bytes`` is a range [from, below) of the whole body;
    ``restricted`` says whether only requests are meant that must stay self-hosted, or only others;
    None means both. ``release`` is the header by which a caller pins itself to one release.
    """

    name: str
    model: str
    targets: tuple[Target, ...]
    because: str
    tenants: tuple[str, ...] = ()
    prompt_bytes: tuple[int, int] | None = None
    restricted: bool | None = None
    release: str | None = None
    shadow: Shadow | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a tenant may use in a minute, over all gateways, and how far that can be exceeded.

    ``quantum`` is what one gateway process takes from the budget ahead of need; ``share`` is what
    it may use in a minute when the rate-limit service cannot be asked. ``overshoot`` is None where
    a managed API may answer, since nothing says how long its answers can be.
    """

    per_minute: int
    quantum: Decided[int]
    share: Decided[int]
    overshoot: Decided[int | None]


@dataclass(frozen=True, kw_only=True)
class TenantPlan:
    """A caller: its keys, the models it may use (empty: all), its budgets and its rules.

    ``key_secrets`` are the configuration keys under which its API keys are kept as Pulumi secrets;
    ``default_max_tokens`` is the limit of answers that is written into requests without one.
    """

    name: str
    key_secrets: tuple[str, ...]
    models: tuple[str, ...] = ()
    requests: Budget | None = None
    tokens: Budget | None = None
    default_max_tokens: int | None = None
    restricted: bool = False
    isolated: bool = True


@dataclass(frozen=True, kw_only=True)
class JwtIssuer:
    """Whose tokens are accepted beside API keys, and the claim that names the tenant."""

    issuer: str
    audiences: tuple[str, ...]
    tenant_claim: str
    jwks: str


@dataclass(frozen=True, kw_only=True)
class ClientCertificates:
    """Whose certificates callers may bring, in PEM, and whether they must."""

    ca: str
    required: bool


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Whoever signs the gateway's certificate in the cluster, and for how long, in hours."""

    kind: str
    name: str
    duration_hours: Decided[int]
    renew_before_hours: Decided[int]


@dataclass(frozen=True, kw_only=True)
class RateLimitPlan:
    """The service that keeps the budgets of all gateways together, and its store.

    ``max_questions`` is how many requests of one gateway may wait for its answer at once, each on
    a connection of its own.
    """

    image: Image
    store_image: Image
    replicas: Decided[int]
    host: str
    port: int
    store_host: str
    store_port: int
    max_questions: Decided[int]
    timeout_milliseconds: Decided[int]
    down_seconds: Decided[int]


@dataclass(frozen=True, kw_only=True)
class GatewayPlan:
    """The one door: TLS, tenants, an allow-list of paths, and routes to whoever answers.

    ``issuer`` is None where the certificate is given with its key; ``counters`` is how many
    gateway processes there are that count for themselves;
    ``proxy_protocol`` says that every connection of callers begins with the PROXY protocol.
    """

    hostname: str
    image: Image
    replicas: Decided[int]
    tenants: tuple[TenantPlan, ...]
    jwt: JwtIssuer | None
    client_certificates: ClientCertificates | None
    issuer: Issuer | None
    proxy_protocol: bool
    models: tuple[ModelEngines, ...]
    apis: tuple[ManagedApi, ...]
    answers: tuple[StaticAnswer, ...]
    routes: tuple[GatewayRoute, ...]
    rate_limit: RateLimitPlan | None
    counters: Decided[int]
    allowed_paths: tuple[str, ...]
    max_request_body_bytes: Decided[int]
    max_request_seconds: Decided[int]
    stream_idle_seconds: Decided[int]
    max_streams_per_connection: Decided[int]
    tls_port: int
    admin_port: int
    readiness_port: int
    drain_seconds: Decided[int]
    termination_grace_seconds: Decided[int]
    workers: Decided[int]
    memory_mib: Decided[int]
