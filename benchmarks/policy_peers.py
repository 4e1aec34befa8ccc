"""The programs that the policy benchmark compares with: pinned, and installed into the cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.toolchain.cache import Cache

CHECKOV: Final = "checkov==3.3.30"
KUBE_SCORE: Final = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"


@dataclass(frozen=True)
class Peers:
    """Both programs, ready to run."""

    checkov: Path
    kube_score: Path

    def checkov_command(self, path: Path) -> list[str]:
        """The call that judges a folder or file without asking any service for anything."""
        where = "--directory" if path.is_dir() else "--file"
        frameworks = ["--framework", "kubernetes", "terraform"]
        output = ["--skip-download", "--quiet", "--compact", "--output", "json"]
        return [str(self.checkov), where, str(path), *frameworks, *output]

    def kube_score_command(self, files: list[Path]) -> list[str]:
        """The call that scores manifests."""
        return [str(self.kube_score), "score", "--output-format", "ci", *map(str, files)]


def install() -> Peers:
    """Return the programs; the first call on a machine installs them."""
    folder = Cache.of(os.environ).root / "benchmarks"
    return Peers(checkov=_checkov(folder), kube_score=_kube_score(folder))


def failed_checks(peers: Peers, folder: Path) -> dict[str, set[str]]:
    """Return the ids of checkov's failed checks, by name of the file below the folder."""
    done = subprocess.run(
        peers.checkov_command(folder), capture_output=True, text=True, check=False
    )
    reports = json.loads(done.stdout)
    failed: defaultdict[str, set[str]] = defaultdict(set)
    for report in reports if isinstance(reports, list) else [reports]:
        for check in _failed(report):
            failed[Path(check["file_path"]).name].add(check["check_id"])
    return failed


def _failed(report: dict[str, Any]) -> list[dict[str, Any]]:
    found = report.get("results", {}).get("failed_checks", [])
    assert isinstance(found, list)  # noqa: S101  (checkov's own format)
    return found


def _checkov(folder: Path) -> Path:
    home = folder / CHECKOV.replace("==", "-")
    program = home / "bin" / "checkov"
    if not program.exists():
        print(f"installing {CHECKOV} into {home}", file=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(home / "bin" / "pip"), "install", "--quiet", CHECKOV])
    return program


def _kube_score(folder: Path) -> Path:
    home = folder / "kube-score-1.20.0"
    if not (home / "kube-score").exists():
        go = shutil.which("go", path=os.pathsep.join([os.environ["PATH"], "/usr/local/go/bin"]))
        if go is None:
            raise SystemExit("kube-score is built from its Go module: put Go on PATH and try again")
        print(f"building {KUBE_SCORE} into {home}", file=sys.stderr)
        _run([go, "install", KUBE_SCORE], GOBIN=str(home))
    return home / "kube-score"


def _run(command: list[str], **variables: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, **variables})
