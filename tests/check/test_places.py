from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.check.places import Places
from tokenworks.errors import ConfigError

ENVIRONMENT = """\
platform: simulated
node_pools:
  - name: l4
    nodes: 1
  - {name: l4-spare, nodes: 1}
models:
  - name: llama
  - name: llama-large
gateway:
  hostname: x
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "e.yaml").write_text(ENVIRONMENT)
    return Places.of(tmp_path / "e.yaml")


def labelled(**labels: str) -> dict[str, object]:
    return {"metadata": {"labels": {f"tokenworks.dev/{key}": one for key, one in labels.items()}}}


def test_a_label_says_which_model_pool_or_gateway_something_belongs_to(places: Places) -> None:
    assert places.line_of("x", labelled(model="llama-large", role="engine")) == 8  # type: ignore[arg-type]
    assert places.line_of("x", {"metadata": {"labels": {"tokenworks.dev/node-pool": "l4"}}}) == 3
    assert places.line_of("x", labelled(role="gateway")) == 9  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "parent", "line"),
    [
        ("llama", "", 7),
        ("llama-service", "", 7),
        ("llama-large-service", "", 8),
        ("llamas", "", None),
        ("l4-0-node", "", 3),
        ("l4-spare-0-node", "", 5),
        ("gateway-service", "", 9),
        ("service", "urn:pulumi:e-serving::tokenworks::a:b:C::llama", 7),
        ("vpc", "", None),
    ],
)
def test_a_name_begins_with_the_name_of_what_it_belongs_to(
    places: Places, name: str, parent: str, line: int | None
) -> None:
    assert places.line_of(name, {}, parent) == line


def test_a_label_of_no_model_here_is_no_place(places: Places) -> None:
    assert places.line_of("x", labelled(model="other")) is None  # type: ignore[arg-type]


def test_an_environment_of_another_shape_has_no_places(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text("models: {a: 1}\nnode_pools: [5, {nodes: 1}]\n")
    assert Places.of(tmp_path / "e.yaml").line_of("a", {}) is None


def test_an_environment_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text("models: [")
    with pytest.raises(ConfigError):
        Places.of(tmp_path / "e.yaml")
