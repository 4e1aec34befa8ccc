"""Holds a model's folder against its manifest; exits 0 only if every file is exactly as listed.

usage: verify.py MANIFEST FOLDER THREADS

Runs in the engine's own image before the engine starts, so it needs nothing but Python. Sizes are
compared first, since a truncated file need not be read to be refused. Files that are not listed
are refused, too: an engine loads whatever lies beside the weights. So are links, which may lead
somewhere else by the time the engine follows them. THREADS files are read at once.
"""

import concurrent.futures
import hashlib
import json
import os
import signal
import sys
from pathlib import Path

CHUNK_BYTES = 16 * 2**20


def end_when_asked():
    """End at once on SIGTERM, which the first process of a container would otherwise ignore."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))


def listed(manifest):
    """The manifest's files by path."""
    files = json.loads(Path(manifest).read_text("utf-8"))["files"]
    return {entry["path"]: entry for entry in files}


def found(folder):
    """Paths of everything below the folder that is not a folder itself."""
    entries = (entry for entry in folder.rglob("*") if entry.is_symlink() or not entry.is_dir())
    return {str(entry.relative_to(folder)) for entry in entries}


def sha256(file):
    """SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def shape_problems(folder, wanted):
    """What is missing, not listed, or of the wrong size; nothing is read for this."""
    there = found(folder)
    for path in sorted(wanted.keys() - there):
        yield f"{path}: is missing"
    for path in sorted(there - wanted.keys()):
        yield f"{path}: is not in the manifest"
    for path in sorted(wanted.keys() & there):
        file, expected = folder / path, wanted[path]["bytes"]
        if file.is_symlink():
            yield f"{path}: is a link, not a file"
        elif not file.is_file():
            yield f"{path}: is no file"
        elif file.stat().st_size != expected:
            yield f"{path}: has {file.stat().st_size} bytes, listed are {expected}"


def content_problems(folder, wanted, threads):
    """What has the right size and the wrong content; large files first."""
    paths = sorted(wanted, key=lambda path: -wanted[path]["bytes"])
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        sums = pool.map(sha256, [folder / path for path in paths])
        for path, digest in zip(paths, sums, strict=True):
            if digest == wanted[path]["sha256"]:
                print(f"{path}: as listed", flush=True)
            else:
                yield f"{path}: has sum {digest}, listed is {wanted[path]['sha256']}"


def problems_of(folder, wanted, threads):
    """Everything in which a folder differs from its manifest; contents only where shapes agree."""
    return list(shape_problems(folder, wanted)) or list(content_problems(folder, wanted, threads))


def main(manifest, folder, threads):
    """Print every problem; return the exit status."""
    problems = problems_of(Path(folder), listed(manifest), int(threads))
    for problem in problems:
        print(f"refused: {problem}", file=sys.stderr)
    if problems:
        print(
            "The weights are not those of the manifest; publish the revision again, or lock the "
            "revision that is meant.",
            file=sys.stderr,
        )
    return 1 if problems else 0


if __name__ == "__main__":
    end_when_asked()
    sys.exit(main(*sys.argv[1:]))
