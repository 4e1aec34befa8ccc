"""The files themselves: what they hold, what they never hold, and how values enter them."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tokenworks.errors import ConfigError
from tokenworks.render_gateway import (
    GATEWAY_MOUNTS,
    drain_command,
    envoy_arguments,
    gateway_files,
    start_command,
)
from tokenworks.render_keys import gateway_keys_file, key_hash
from tokenworks.templating import TEMPLATES, lua_text, render, shell_text, yaml_text

from .harness import KEYS, engines_of, keys_file, plan_for
from .simulated import CHAT, LOOPBACK

MODELS = tuple(
    engines_of(model, 8000, host=f"{model}.engines.svc", most=8)
    for model in ("alpha", "llama-3.1-8b")
)
PLAN = plan_for(MODELS)
FILES = gateway_files(PLAN, listen_address=LOOPBACK)


def load(name: str) -> Any:
    return YAML(typ="safe", pure=True).load(FILES[name])


def routes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load("rds.yaml")["resources"][0]["virtual_hosts"][0]["routes"]
    return found


def named(routes: list[dict[str, Any]]) -> set[str]:
    """Clusters that routes name."""
    ways = [route["route"]["weighted_clusters"]["clusters"] for route in routes if "route" in route]
    return {target["name"] for way in ways for target in way}


def test_every_template_of_the_gateway_is_rendered() -> None:
    apart = {"keys.yaml.j2", "credential.yaml.j2", "ratelimit.yaml.j2"}
    apart |= {"identity.yaml.j2", "client_ca.yaml.j2"}
    parts = {"api_keys.lua.j2", "admission.lua.j2", "rewrite.lua.j2", "body.lua.j2"}
    parts |= {"budgets.lua.j2", "answers.lua.j2"}
    rendered = {f"{name}.j2" for name in FILES} | apart | parts | {"replies.yaml.j2"}
    assert {path.name for path in (TEMPLATES / "gateway").iterdir()} == rendered


def test_every_value_enters_a_template_through_the_filter_of_its_language() -> None:
    languages = {"yaml": r"\| (yaml|indent\(\d+\))", "lua": r"\| (lua|part)", "sh": r"\| shell"}
    for path in (TEMPLATES / "gateway").iterdir():
        ending = languages[path.name.split(".")[-2]]
        text = path.read_text(encoding="utf-8")
        for expression in re.findall(r"\{\{(.*?)\}\}", text):
            assert re.search(f"{ending} $", expression), f"{path.name}: {expression}"


def test_templates_choose_nothing() -> None:
    for path in (TEMPLATES / "gateway").iterdir():
        words = re.findall(r"\{%-?\s*(\w+)", path.read_text(encoding="utf-8"))
        assert set(words) <= {"for", "endfor"}, path.name


def test_a_missing_value_is_an_error_and_not_an_empty_string() -> None:
    with pytest.raises(jinja2.UndefinedError, match="mounts"):
        render("gateway/sds.yaml.j2")


@given(st.text())
def test_no_string_can_leave_its_quotes_in_yaml(text: str) -> None:
    loaded = YAML(typ="safe", pure=True).load(f"{{value: {yaml_text(text)}, other: 1}}")
    assert loaded == {"value": text, "other": 1}


@given(st.text())
def test_no_string_can_leave_its_quotes_in_lua(text: str) -> None:
    literal = lua_text(text)
    assert re.fullmatch(r'"([A-Za-z0-9 _./:-]|\\[0-9]{3})*"', literal)
    plain = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1])), literal[1:-1])
    assert plain.encode("latin-1").decode() == text


def test_a_word_of_a_shell_command_stays_one_word() -> None:
    assert shell_text("a b; $(c)") == "'a b; $(c)'"
    assert shell_text(9901) == "9901"


def test_equal_plans_give_equal_bytes() -> None:
    assert gateway_files(PLAN, listen_address=LOOPBACK) == FILES
    reordered = {tenant: list(reversed(KEYS[tenant])) for tenant in reversed(KEYS)}
    assert keys_file(reordered) == keys_file(KEYS)


def test_each_route_to_an_engine_names_its_exact_path_method_and_model() -> None:
    to_engines = [route for route in routes() if "route" in route]
    assert len(to_engines) == 4
    for route in to_engines:
        assert set(route["match"]) == {"path", "headers"}
        method, model = route["match"]["headers"]
        assert method == {"name": ":method", "string_match": {"exact": "POST"}}
        (target,) = route["route"]["weighted_clusters"]["clusters"]
        assert f"model/{model['string_match']['exact']}" == target["name"]
    paths = {route["match"]["path"] for route in to_engines}
    assert paths == {CHAT, "/v1/completions"}


def test_routes_and_clusters_name_the_same_models() -> None:
    """Envoy is not asked to check this: it may read the routes first, and would not look again."""
    assert load("rds.yaml")["resources"][0]["validate_clusters"] is False
    clusters = {cluster["name"] for cluster in load("cds.yaml")["resources"]}
    assert named(routes()) == clusters


def test_the_last_route_refuses_whatever_no_other_takes() -> None:
    *_, last = routes()
    assert last["match"] == {"prefix": "/"}
    assert last["direct_response"]["status"] == 404


def test_no_model_list_is_served_unless_the_plan_allows_it() -> None:
    files = gateway_files(plan_for(MODELS, allowed_paths=(CHAT,)), listen_address=LOOPBACK)
    assert "/v1/models" not in files["rds.yaml"]
    assert "/v1/completions" not in files["rds.yaml"]


def test_only_the_two_doors_listen_beyond_the_pod() -> None:
    listeners = load("lds.yaml")["resources"]
    doors = {listener["name"]: listener["address"]["socket_address"] for listener in listeners}
    assert doors == {
        "tls": {"address": LOOPBACK, "port_value": PLAN.tls_port},
        "readiness": {"address": LOOPBACK, "port_value": PLAN.readiness_port},
    }
    admin = load("envoy.yaml")["admin"]["address"]["socket_address"]
    assert admin == {"address": "127.0.0.1", "port_value": PLAN.admin_port}


def test_the_config_map_and_the_arguments_hold_no_secret() -> None:
    text = "".join(FILES.values()) + " ".join(envoy_arguments(PLAN))
    for secret in (*(key for keys in KEYS.values() for key in keys), "PRIVATE KEY"):
        assert secret not in text
        assert key_hash(secret) not in text


def test_the_keys_file_holds_hashes_and_no_key() -> None:
    text = keys_file(KEYS)
    for keys in KEYS.values():
        for key in keys:
            assert key not in text
            assert hashlib.sha256(key.encode()).hexdigest() in text


def test_a_key_s_hash_is_its_sha_256() -> None:
    """The example of FIPS 180-2, appendix B.1."""
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert key_hash("abc") == expected


def test_what_is_no_hash_is_refused_without_being_repeated() -> None:
    with pytest.raises(ConfigError, match=r"tenants\.search\.keys\[1\]: is no SHA-256") as caught:
        gateway_keys_file({"search": [key_hash("a"), "a-key-in-plain-text"]})
    assert "a-key-in-plain-text" not in str(caught.value)


def test_one_key_cannot_belong_to_two_tenants() -> None:
    with pytest.raises(ConfigError, match="is also a key of tenant search"):
        gateway_keys_file({"search": [key_hash("a")], "support": [key_hash("a")]})


@pytest.mark.parametrize("tenant", ["", "two words", "line\nbreak", "naïve", '"]=1}\0'])
def test_a_tenant_that_no_header_can_carry_is_refused(tenant: str) -> None:
    with pytest.raises(ConfigError, match="cannot be carried in a header"):
        gateway_keys_file({tenant: [key_hash("a")]})


def test_every_problem_with_the_keys_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        gateway_keys_file({"a b": ["x"], "c": ["y"]})
    assert len(caught.value.problems) == 3


def test_envoy_never_logs_below_warnings_and_watches_strictly() -> None:
    """Its debug log prints API keys."""
    arguments = envoy_arguments(PLAN)
    assert arguments[arguments.index("--log-level") + 1] == "warning"
    assert arguments[arguments.index("--concurrency") + 1] == str(PLAN.workers.value)
    assert arguments[arguments.index("--drain-time-s") + 1] == str(PLAN.drain_seconds.value)
    assert {"--reject-unknown-dynamic-fields", "--disable-hot-restart"} < set(arguments)


def test_the_drain_command_runs_the_script_in_the_config_volume() -> None:
    assert drain_command() == ("bash", f"{GATEWAY_MOUNTS.config}/drain.sh")
    assert "drain.sh" in FILES


def test_what_starts_a_gateway_is_a_file_so_that_another_model_changes_no_pod() -> None:
    assert start_command() == ("bash", f"{GATEWAY_MOUNTS.config}/start.sh")
    script = FILES["start.sh"]
    for model in PLAN.models:
        assert f"/dev/tcp/{model.host}/{model.port}'" in script
    assert script.endswith('exec envoy "$@"\n')
