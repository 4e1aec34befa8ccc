"""The tools run as a container runs them: as nobody in particular, on a file system to be read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weights.source_server import serving
from tests.weights.tool import REVISION, TOOLS, Volume, made_up

USER = "1000"
PLACES = "/usr/local/bin:/usr/bin"
PYTHONS = [
    found for minor in range(10, 15) if (found := shutil.which(f"python3.{minor}", path=PLACES))
]
"""Every Python that any user can run; images have others, so each is tried."""

CONTAINED = """
set -e
mount --make-rprivate /
mount --bind "$VOLUME" "$VOLUME"
for place in / /tmp; do
    mountpoint -q "$place" && mount -o remount,bind,ro "$place"
done
mount -t tmpfs -o ro tmpfs /root 2>/dev/null || true
exec setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs --inh-caps=-all "$@"
"""
"""Takes everything but the volume from a process: files to write, rights, groups."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that user 1000 can reach, with tools that only root may change."""
    if os.geteuid() != 0:
        pytest.skip("a read-only file system takes root; the tools are not tried on one here")
    made = Path(tempfile.mkdtemp(prefix="weights-"))
    made.chmod(0o755)
    shutil.copytree(TOOLS, made / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (made / "volume").mkdir()
    shutil.chown(made / "volume", int(USER), int(USER))
    yield made
    shutil.rmtree(made)


def test_a_contained_process_can_write_to_its_volume_only(folder: Path) -> None:
    for place, status in ((folder, False), (folder / "volume", True), (Path("/tmp"), False)):  # noqa: S108
        done = contained(folder, "touch", str(place / "probe-of-a-test"))
        assert (done.returncode == 0) is status, place


@pytest.mark.parametrize("program", PYTHONS)
def test_the_tools_need_a_python_and_a_volume(folder: Path, program: str) -> None:
    def run(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return contained(folder, program, str(folder / "tools" / tool), *arguments)

    files = made_up(1)
    volume = Volume(folder, files)
    with serving(files) as source:
        arguments = volume.command({"url": source.url})[1:]
        done = run("populate.py", *arguments)
        assert done.returncode == 0, done.stderr
    assert volume.state() == files
    assert {file.stat().st_uid for file in volume.published.rglob("*")} == {int(USER)}
    gate = (arguments[1], str(volume.published), "2")
    assert run("verify.py", *gate).returncode == 0
    (folder / "collect.json").write_text(json.dumps({"in_use": [REVISION], "previous": 0}))
    old = volume.path / ("0" * 12 + "-" + "0" * 12)
    old.mkdir()
    shutil.chown(old, int(USER), int(USER))
    collect = (str(folder / "collect.json"), str(volume.path))
    done = run("collect.py", *collect)
    assert done.returncode == 0, done.stderr
    assert not old.exists()
    assert volume.state() == files


def contained(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", CONTAINED, "contained", *command],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "VOLUME": str(folder / "volume")},
        timeout=120,
    )
    if "unshare failed" in done.stderr or "mount: " in done.stderr:
        pytest.skip(f"file systems cannot be taken away here ({done.stderr.strip()})")
    return done
