"""What kwokctl and kubectl are told, and the files that they are told it in."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tokenworks.errors import ConfigError
from tokenworks.files import exclusive, write_whole
from tokenworks.local_cluster import LocalCluster
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_cluster.ports import ports_of
from tokenworks.local_cluster.settings import PROGRAMS, kubeconfig, settings


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a-", "a b"])
def test_a_name_that_is_no_folder_or_cluster_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lower-case letters, digits and hyphens"):
        LocalCluster(name, tmp_path)


def test_everything_lies_under_the_environments_folder(tmp_path: Path) -> None:
    layout = Layout.of("local", tmp_path)
    home = tmp_path.resolve() / ".tokenworks" / "local"
    assert layout.kubeconfig == home / "kubeconfig"
    inside = (layout.config, layout.record, layout.state, layout.data, layout.kwokctl_log)
    assert all(path.is_relative_to(home / "cluster") for path in inside)


def written(tmp_path: Path) -> str:
    programs = {name: Path("/opt/with space, comma", name) for name in PROGRAMS}
    return settings(Layout.of("local", tmp_path), ports_of(20000), programs, {})


def documents(text: str) -> list[dict[str, object]]:
    return [dict(each) for each in YAML(typ="safe").load_all(text)]


def test_settings_are_one_control_plane_and_stages(tmp_path: Path) -> None:
    kinds = [each["kind"] for each in documents(written(tmp_path))]
    assert kinds[0] == "KwokctlConfiguration"
    assert set(kinds[1:]) == {"Stage"}


def test_settings_name_the_programs_whatever_their_folders_are_called(tmp_path: Path) -> None:
    options = documents(written(tmp_path))[0]["options"]
    assert isinstance(options, Mapping)
    assert options["kwokControllerBinary"] == "/opt/with space, comma/kwok"
    assert options["bindAddress"] == "127.0.0.1"


def test_settings_depend_on_nothing_but_what_is_given(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path)


def test_a_kubeconfig_names_the_key_and_does_not_hold_it(tmp_path: Path) -> None:
    content = json.loads(kubeconfig(Layout.of("local", tmp_path), 20002))
    user = content["users"][0]["user"]
    assert set(user) == {"client-certificate", "client-key"}
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:20002"
    assert content["current-context"] == content["contexts"][0]["name"] == "tokenworks-local"


def test_a_file_is_replaced_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_whole(file, "old")
    write_whole(file, "new")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_is_held_by_one_at_a_time_and_leaves_no_lock_file(tmp_path: Path) -> None:
    folder, order = tmp_path / "home", []

    def work(number: int) -> None:
        with exclusive(folder):
            order.append((number, "in"))
            time.sleep(0.02)
            order.append((number, "out"))
            folder.rmdir()  # as deleting a cluster does while others wait

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))
    assert [number for number, _ in order[::2]] == [number for number, _ in order[1::2]]
    assert not folder.exists()
