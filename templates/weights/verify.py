"""Holds a model's folder against its manifest; exits 0 only if every file is exactly as listed.

usage: verify.py MANIFEST FOLDER

Runs in the engine's own image before the engine starts, so it needs nothing but Python. Sizes are
compared first, since a truncated file need not be read to be refused. Files that are not listed
are refused, too: an engine loads whatever lies beside the weights.
"""

import concurrent.futures
import hashlib
import json
import os
import sys

CHUNK_BYTES = 16 * 2**20


def listed(manifest):
    """The manifest's files by path."""
    with open(manifest, encoding="utf-8") as file:
        return {entry["path"]: entry for entry in json.load(file)["files"]}


def found(folder):
    """Paths below the folder, relative to it; links count as what they are, not where they lead."""
    paths = set()
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "lost+found"]
        paths.update(os.path.relpath(os.path.join(root, name), folder) for name in files)
    return paths


def sha256(path):
    """SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def shape_problems(folder, wanted):
    """What is missing, not listed, or of the wrong size; nothing is read for this."""
    there = found(folder)
    for path in sorted(wanted.keys() - there):
        yield path + ": is missing"
    for path in sorted(there - wanted.keys()):
        yield path + ": is not in the manifest"
    for path in sorted(wanted.keys() & there):
        size, expected = os.path.getsize(os.path.join(folder, path)), wanted[path]["bytes"]
        if size != expected:
            yield f"{path}: has {size} bytes, listed are {expected}"


def content_problems(folder, wanted):
    """What has the right size and the wrong content."""
    paths = sorted(wanted, key=lambda path: -wanted[path]["bytes"])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sums = pool.map(sha256, [os.path.join(folder, path) for path in paths])
        for path, digest in zip(paths, sums):
            if digest == wanted[path]["sha256"]:
                print(f"{path}: as listed", flush=True)
            else:
                yield f"{path}: has sum {digest}, listed is {wanted[path]['sha256']}"


def main(manifest, folder):
    """Print every problem; return the exit status."""
    wanted = listed(manifest)
    problems = list(shape_problems(folder, wanted)) or list(content_problems(folder, wanted))
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
    sys.exit(main(*sys.argv[1:]))
