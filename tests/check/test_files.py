"""Reading what somebody may have written to mislead: never a pass, never a traceback."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from tokenworks.check import files
from tokenworks.check.files import read_manifests, read_resources
from tokenworks.check.sources import Reading

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


def read(*paths: Path | str) -> Reading:
    return read_manifests([str(path) for path in paths])


def refused(reading: Reading) -> str:
    (finding,) = reading.findings
    return f"{finding.origin}: {finding.reason}"


def test_manifests_are_found_wherever_they_lie_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b" / "deep").mkdir(parents=True)
    for name in ("z.yml", "b/deep/a.YAML", "b/c.json"):
        (tmp_path / name).write_text(POD)
    (tmp_path / "notes.txt").write_text("not: [a manifest")
    origins = [Path(one.origin).name for one in read(tmp_path).resources]
    assert sorted(origins) == ["a.YAML", "c.json", "z.yml"]
    assert read(tmp_path).findings == []


def test_a_file_that_is_named_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "rendered.out").write_text(POD)
    assert len(read(tmp_path / "rendered.out").resources) == 1


def test_several_paths_are_read_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(POD)
    assert len(read(tmp_path / "a", tmp_path / "b").resources) == 2


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    (resource,) = read("-").resources
    assert resource.origin == "standard input"


def test_a_pipe_that_is_named_is_read(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, POD.encode())
    os.close(writer)
    try:
        assert len(read(f"/proc/self/fd/{reader}").resources) == 1
    finally:
        os.close(reader)


@pytest.mark.parametrize("content", ["", "# only a remark\n", "---\n---\n", "{}\n"])
def test_a_file_with_nothing_in_it_is_no_pass(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.yaml").write_text(content)
    for path in (tmp_path, tmp_path / "a.yaml"):
        assert "holds no Kubernetes object" in refused(read(path))


def test_a_folder_with_nothing_in_it_is_no_pass_beside_one_that_has_something(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / "empty").mkdir()
    reading = read(tmp_path / "a.yaml", tmp_path / "empty")
    assert len(reading.resources) == 1
    assert "empty: holds no Kubernetes object" in refused(reading)


def test_one_bad_file_hides_nothing_in_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: [")
    (tmp_path / "b.yaml").write_bytes(b"\x7fELF\xff\x00")
    (tmp_path / "c.yaml").write_text(POD)
    reading = read(tmp_path)
    assert len(reading.resources) == 1
    assert [Path(one.origin).name for one in reading.findings] == ["a.yaml", "b.yaml"]


def test_a_binary_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(bytes(range(256)))
    assert "is no UTF-8 text (byte 128)" in refused(read(tmp_path))


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    with file.open("wb") as stream:
        stream.truncate(50 * 1024 * 1024)
    assert "is larger than 10 MiB" in refused(read(file))


def test_an_endless_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1024 * 1024)
    assert "is larger than 1 MiB" in refused(read("/dev/zero"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "none.yaml: cannot be read (No such file or directory)" in refused(
        read(tmp_path / "none.yaml")
    )


def test_a_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yaml").write_text(POD)

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "a.yaml"))

    monkeypatch.setattr(Path, "open", denied)
    assert "cannot be read (Permission denied)" in refused(read(tmp_path))


def test_a_folder_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def denied(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", denied)
    reading = read(tmp_path)
    assert len(reading.resources) == 1
    assert "closed: cannot be read (Permission denied)" in refused(reading)


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.yaml").write_text(POD)
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    assert len(read(tmp_path).resources) == 1


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "a.yaml")
    for path in (tmp_path, tmp_path / "a.yaml"):
        assert "Too many levels of symbolic links" in refused(read(path))


def test_a_folder_behind_a_link_is_judged_too(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "one.yaml").write_text(POD)
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "elsewhere")
    assert len(read(tmp_path / "top").resources) == 1


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    assert "is a pipe" in refused(read(tmp_path))


def test_a_name_that_is_no_text_can_be_printed(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\xfe.yaml"
    Path(os.fsdecode(name)).write_text("kind: [")
    refused(read(tmp_path)).encode("utf-8")


def test_a_list_of_resources_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text('[{"type": "a:b:C", "name": "x"}]')
    (resource,) = read_resources([str(file)]).resources
    assert (resource.type, resource.origin) == ("a:b:C", str(file))


def test_an_empty_list_of_resources_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("[]")
    assert "holds no resource" in refused(read_resources([str(tmp_path / "r.json")]))
