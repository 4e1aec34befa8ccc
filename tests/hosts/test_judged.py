"""What Ansible's plugins are told of one host, and in which order hosts change."""

from __future__ import annotations

import json

import pytest

from tests.hosts.repository import Signer
from tests.hosts.samples import lock, state
from tokenworks.errors import ConfigError
from tokenworks.hosts.changes import ChangeClass
from tokenworks.hosts.files import node_labels
from tokenworks.hosts.judged import Judged, Wanted, domains, node_labels_of, read_wanted
from tokenworks.hosts.settings import HostSettings


@pytest.fixture
def wanted(signer: Signer) -> Wanted:
    sample = lock()
    repository = sample.repositories[0].model_copy(update={"key_fingerprint": signer.fingerprint})
    return read_wanted(
        {
            "host_lock": sample.model_copy(update={"repositories": (repository,)}).model_dump(),
            "host_settings": HostSettings(expected_gpus=8).model_dump(),
            "host_keys": {"mirror.asc": signer.armoured.decode()},
        }
    )


def test_hosts_change_by_failure_domain_and_others_not_at_all() -> None:
    groups = {
        "all": ["a", "b", "c", "d"],
        "host_domain_rack_b_1": ["c", "a"],
        "host_domain_rack_a_2": ["b"],
        "ungrouped": ["d"],
    }
    assert domains(groups) == [["b"], ["a", "c"]]
    assert domains({"all": ["a"]}) == []


def test_the_host_is_asked_for_every_managed_file_and_every_locked_package(wanted: Wanted) -> None:
    question = wanted.question
    assert "/etc/tokenworks/gate.json" in question["files"]
    assert question["packages"] == sorted(lock().versions)


def test_the_texts_are_those_of_the_files_that_the_plan_names(wanted: Wanted) -> None:
    judged = Judged(wanted=wanted, state=state())
    assert [text["path"] for text in judged.texts] == judged.changes["files"]
    assert judged.texts, "the sample has none of them"


def test_what_is_passed_on_is_plain_data(wanted: Wanted) -> None:
    judged = Judged(wanted=wanted, state=state(packages={}, owed=("uncordon",)))
    for part in (judged.changes, judged.texts, judged.observed, judged.found):
        assert json.loads(json.dumps(part)) == part
    assert set(judged.changes["sha256"]) == set(judged.changes["installed"])


@pytest.mark.parametrize("there", ["1.2.3", None])
def test_a_label_that_the_node_lacks_is_a_change_of_configuration_and_a_finding(
    there: str | None, wanted: Wanted
) -> None:
    labels = node_labels(wanted.lock)
    name, value = next(iter(labels.items()))
    good = Judged(wanted=wanted, state=state(), node_labels=labels)
    assert good.plan == Judged(wanted=wanted, state=state()).plan
    others = {n: v for n, v in labels.items() if n != name} | ({name: there} if there else {})
    judged = Judged(wanted=wanted, state=state(), node_labels=others)
    because = f"label {name} of the node is {there or 'missing'}, locked is {value}"
    assert because in judged.changes["because"]
    assert f"{because}; run: tokenworks hosts prepare" in judged.found["host"]
    (change,) = judged.label_changes
    assert change.change_class is ChangeClass.CONFIGURATION


def test_a_host_without_a_node_lacks_no_label() -> None:
    assert node_labels_of({}) is None
    assert node_labels_of({"metadata": {"name": "gpu-1"}}) == {}


def test_only_steps_that_nobody_could_see_later_are_noted_on_the_host(wanted: Wanted) -> None:
    changes = Judged(wanted=wanted, state=state(loaded_driver="570.1.1")).changes
    assert "reboot" in changes["owed"]
    assert not {"drain", "files", "packages", "verify", "uncordon"} & set(changes["owed"])


def test_a_key_that_is_not_the_locked_one_ends_everything(wanted: Wanted) -> None:
    other = Wanted(lock=lock(), settings=wanted.settings, keys=wanted.keys)
    with pytest.raises(ConfigError, match="locked is"):
        _ = other.question
