"""The environment and the tool refuse the same paths: what is committed can be published."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.weights.tool import TOOLS
from tokenworks.environment.weights import FilePath

PARTS = st.sampled_from(["a", "b.json", ".", "..", "", "...", ".a", "a b", "\\", "\n", "\0", "é"])
PATHS = st.one_of(st.lists(PARTS, max_size=4).map("/".join), st.text(max_size=6))


@pytest.fixture(scope="module")
def tool() -> Any:
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module("populate")
    finally:
        sys.path.remove(str(TOOLS))


def is_committed(path: str) -> bool:
    try:
        TypeAdapter(FilePath).validate_python(path)
    except ValidationError:
        return False
    return True


def is_published(tool: Any, folder: Path, path: str) -> bool:
    file = folder / "manifest.json"
    file.write_text(json.dumps({"files": [{"path": path, "bytes": 1, "sha256": "0" * 64}]}))
    try:
        tool.checked(file)
    except tool.RefusedError:
        return False
    return True


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(path=PATHS)
def test_a_path_is_good_for_both_or_for_neither(tool: Any, tmp_path: Path, path: str) -> None:
    good = is_committed(path)
    assert is_published(tool, tmp_path, path) is good
    if good:
        inside = (tmp_path / "model" / path).resolve()
        assert inside.is_relative_to(tmp_path / "model")
        assert inside != tmp_path / "model"
