"""Function URLs and API gateways have addresses on the internet, so each asks who calls.

An API key names a usage plan and is no authentication (docs.aws.amazon.com/apigateway, api-gateway
usage plans), so it does not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from policy.aws import aws_type, by_reference
from policy.estate import Estate
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict

_REMEDY: Final = "ask for AWS_IAM, a JWT or an authorizer's yes"
# Operations of OpenAPI, and Amazon's word for all of them; browsers ask by OPTIONS without a name.
_METHODS: Final = frozenset(
    "get put post delete patch head trace x-amazon-apigateway-any-method".split()  # noqa: SIM905
)


def _faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    yield from _READERS[aws_type(resource.type)](resource, estate)


def _open(key: str, given: Value, what: str) -> Iterator[Fault]:
    """Yield a fault unless a kind of authorization is given."""
    none = given in (None, "") or (isinstance(given, str) and given.upper() == "NONE")
    if none or given is UNKNOWN:
        yield Fault(
            key=key,
            given=given,
            reason=f"{'may let' if given is UNKNOWN else 'lets'} anybody call {what}",
            remedy=_REMEDY,
            verdict=Verdict.UNDETERMINABLE if given is UNKNOWN else Verdict.FAIL,
        )


def _function_url(url: Resource, _: Estate) -> Iterator[Fault]:
    key = "authType" if "authType" in url.properties else "authorizationType"
    yield from _open(key, url.properties.get(key), "the function")


def _permission(permission: Resource, _: Estate) -> Iterator[Fault]:
    given = permission.properties.get("functionUrlAuthType")
    if given is not None:
        yield from _open("functionUrlAuthType", given, "the function")


def _method(method: Resource, _: Estate) -> Iterator[Fault]:
    """Judge a method of a REST API; browsers ask by OPTIONS before they send who they are."""
    verb = method.properties.get("httpMethod")
    if not (isinstance(verb, str) and verb.upper() == "OPTIONS"):
        key = "authorizationType" if "authorizationType" in method.properties else "authorization"
        yield from _open(key, method.properties.get(key), "the method")


def _route(route: Resource, estate: Estate) -> Iterator[Fault]:
    if not _is_of_an_open_connection(route, estate):
        yield from _open(
            "authorizationType", route.properties.get("authorizationType"), "the route"
        )


def _is_of_an_open_connection(route: Resource, estate: Estate) -> bool:
    """Return whether a route serves a WebSocket, which authorizes once, at ``$connect``."""
    key = route.properties.get("routeKey")
    if not isinstance(key, str) or key == "$connect" or " " in key:
        return False
    if key != "$default":
        return True
    reference = route.properties.get("apiId")
    api = by_reference(estate).get(reference) if isinstance(reference, str) else None
    return api is not None and api.properties.get("protocolType") == "WEBSOCKET"


def _http_api(api: Resource, _: Estate) -> Iterator[Fault]:
    """Judge an HTTP API: with a target it has a route of its own, to which anybody may come."""
    target = api.properties.get("target")
    if target is not None:
        yield Fault(
            key="target",
            reason="makes a route that lets anybody call it",
            remedy=f"make routes instead, and {_REMEDY}",
            verdict=Verdict.UNDETERMINABLE if target is UNKNOWN else Verdict.FAIL,
        )
    yield from _description(api, _)


def _description(api: Resource, _: Estate) -> Iterator[Fault]:
    """Judge the operations of an API that is given as an OpenAPI description."""
    body = api.properties.get("body")
    if body is None:
        return
    described = _read(body)
    if described is UNKNOWN:
        yield Fault(
            key="body",
            reason="cannot be read, and may let anybody call the API",
            remedy="give the description as JSON",
            verdict=Verdict.UNDETERMINABLE,
        )
    elif count := sum(1 for _ in _open_operations(described)):
        yield Fault(
            key="body",
            reason=f"lets anybody call {count} of its operations",
            remedy="give each a security scheme",
        )


def _read(body: Value) -> Value:
    if is_body(body):
        return body
    try:
        read = json.loads(body) if isinstance(body, str) else None
    except ValueError:
        return UNKNOWN
    return Resource.of("", "", read).properties if isinstance(read, dict) else UNKNOWN


def _open_operations(described: Value) -> Iterator[Body]:
    """Yield operations that ask for no security, or for none as one of several choices."""
    paths = peek(described, "paths")
    for operations in paths.values() if is_body(paths) else ():
        for verb, operation in operations.items() if is_body(operations) else ():
            if verb.lower() in _METHODS and is_body(operation):
                asked = operation.get("security", peek(described, "security"))
                choices = [choice for _, choice in elements(asked)]
                if not choices or any(is_body(choice) and not choice for choice in choices):
                    yield operation


_READERS: Final[dict[str, Callable[[Resource, Estate], Iterator[Fault]]]] = {
    "lambda.FunctionUrl": _function_url,
    "lambda.Url": _function_url,
    "lambda.Permission": _permission,
    "apigateway.Method": _method,
    "apigateway.RestApi": _description,
    "apigatewayv2.Route": _route,
    "apigatewayv2.Api": _http_api,
}

RULE: Final = Rule(
    code="E9",
    name="functions-and-apis-know-their-callers",
    description="Function URLs and API gateways let nobody in whom they do not know.",
    family=Family.CLOUD,
    severity=Severity.HIGH,
    remediation="Set the authorization of every URL, method and route to something but NONE.",
    references=(
        "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html",
        "https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-control-access-to-api.html",
    ),
    applies=lambda token: aws_type(token) in _READERS,
    faults=_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
