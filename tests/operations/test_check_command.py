"""`tokenworks check` as people and CI call it: a process, its output and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml

from tests.operations.test_check import POD, PUBLIC

ROOT = Path(__file__).resolve().parents[2]
GOOD = POD.replace("nginx:1.29", f"nginx:1.29@sha256:{'0' * 64}").replace(
    "kind: Pod", "kind: ConfigMap"
)


def run(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tokenworks.cli", "check", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )


def assert_ended(done: subprocess.CompletedProcess[str], code: int) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "all.yaml"
    file.write_text(PUBLIC)
    return file


def test_good_manifests_exit_with_0(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    done = run("--manifests", tmp_path)
    assert_ended(done, 0)
    assert done.stdout.startswith("Good: 1 item judged by")


def test_bad_manifests_exit_with_1_and_name_file_and_line(manifest: Path) -> None:
    done = run("--manifests", manifest)
    assert_ended(done, 1)
    assert f"{manifest}:5" in done.stdout
    assert "nginx:1.29 has a tag" in done.stdout


def test_manifests_come_from_standard_input_too() -> None:
    done = run("--manifests", "-", stdin=PUBLIC)
    assert_ended(done, 1)
    assert "standard input:5" in done.stdout


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n"
    for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


@pytest.mark.parametrize(
    "text", ["kind: [", BOMB, "[" * 100_000, "\x00", "a: 1\na: 2", "", "- " * 5_000, "{}"]
)
def test_what_cannot_be_judged_exits_with_3_and_its_reason(text: str) -> None:
    done = run("--manifests", "-", stdin=text)
    assert_ended(done, 3)
    assert "everything-is-judged" in done.stdout


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"PK\x03\x04\x80"])
def test_a_binary_file_exits_with_3(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    assert_ended(run("--manifests", tmp_path), 3)


def test_a_file_of_50_megabytes_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD + "# " + "x" * 50_000_000)
    done = run("--manifests", tmp_path)
    assert_ended(done, 3)
    assert "larger than 10 MiB" in done.stdout


def test_an_empty_folder_exits_with_3(tmp_path: Path) -> None:
    assert_ended(run("--manifests", tmp_path), 3)


def test_wrong_usage_exits_with_2(manifest: Path) -> None:
    done = run("local", "--manifests", manifest)
    assert_ended(done, 2)
    assert "files are judged by themselves" in " ".join(done.stderr.split())
    assert_ended(run("--format", "xml"), 2)


def test_one_run_prints_text_and_writes_the_other_reports(manifest: Path, tmp_path: Path) -> None:
    sarif, junit = tmp_path / "out.sarif", tmp_path / "out.xml"
    done = run("--manifests", manifest, "--sarif", sarif, "--junit", junit)
    assert_ended(done, 1)
    assert "Refused: " in done.stdout
    results = json.loads(sarif.read_text("utf-8"))["runs"][0]["results"]
    assert len(results) == JUnitXml.fromfile(str(junit)).failures > 0


def test_reports_are_written_also_where_nothing_could_be_told(tmp_path: Path) -> None:
    sarif = tmp_path / "out.sarif"
    assert_ended(run("--manifests", "-", "--sarif", sarif, stdin="kind: ["), 3)
    (run_,) = json.loads(sarif.read_text("utf-8"))["runs"]
    assert run_["invocations"][0]["executionSuccessful"] is False
    assert run_["results"][0]["ruleId"] == "everything-is-judged"


def test_a_report_that_cannot_be_written_is_said(manifest: Path, tmp_path: Path) -> None:
    done = run("--manifests", manifest, "--sarif", tmp_path / "none" / "out.sarif")
    assert_ended(done, 1)
    assert "name a file in a folder that exists" in done.stderr


@pytest.mark.parametrize("arguments", [["--json"], ["--format", "json"], ["--format", "sarif"]])
def test_what_a_machine_reads_is_all_that_is_printed(manifest: Path, arguments: list[str]) -> None:
    done = run("--manifests", manifest, *arguments)
    assert_ended(done, 1)
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == ""


def test_plain_manifests_need_no_pulumi(manifest: Path) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom tokenworks.cli import app\n"
        f"CliRunner().invoke(app, ['check', '--manifests', {str(manifest)!r}])\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('pulumi', 'grpc', 'ruamel')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
