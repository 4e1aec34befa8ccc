"""Fills a volume with one revision of a model's files, and shows it only when it is whole.

usage: populate.py SETTINGS MANIFEST VOLUME

Files are written below VOLUME/.incoming/<revision>, hashed while they arrive, and held against the
manifest; then the folder is renamed to VOLUME/<revision>, so that whoever reads the volume sees all
of a revision or nothing. What a killed run left is read again and continued. A revision that is
there is checked; a damaged one is withdrawn and mended.

Exit status: 0 the revision is there, 1 run it again, 3 running it again cannot help.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import verify
from sources import CHUNK_BYTES, WAIT_SECONDS, RefusedError, TryAgainError, source_of

INCOMING = ".incoming"
LOCK = ".lock"
SPARE_BYTES = 64 * 2**20
"""Free space beyond the files themselves: for what the file system writes about them."""
FULL = {errno.ENOSPC, errno.EDQUOT}
STARTS_OVER = 2
AGAIN, REFUSED = 1, 3


def say(text):
    """A line that can be read at once."""
    print(text, flush=True)


def checked(manifest):
    """The manifest's files by path, or a refusal of what must never become a file."""
    entries = json.loads(Path(manifest).read_text("utf-8"))["files"]
    paths = [entry["path"] for entry in entries]
    folders = {path[: at.start()] for path in paths for at in re.finditer("/", path)}
    for entry in entries:
        path = entry["path"]
        parts = path.split("/")
        if {"", ".", ".."} & set(parts) or re.search(r"[\\\x00-\x1f\x7f]", path):
            raise RefusedError(f"{path!r}: is no path below the model's folder")
        if paths.count(path) > 1 or path in folders:
            raise RefusedError(f"{path}: is listed twice, or as a file and a folder")
        size = entry["bytes"]
        if type(size) is not int or size < 0 or not re.fullmatch("[0-9a-f]{64}", entry["sha256"]):
            raise RefusedError(f"{path}: is listed without a size and a SHA-256 sum")
    return verify.listed(manifest)


class Progress:
    """How much of a revision is there, and when the rest will be."""

    def __init__(self, total, seconds):
        self.total, self.seconds = total, seconds
        self.there = self.received = 0
        self.guard, self.over = threading.Lock(), threading.Event()

    def add(self, count, *, received=True):
        """Count bytes that are there; what came from the source is also a rate."""
        with self.guard:
            self.there += count
            self.received += count if received else 0

    def report(self):
        """A line now and then until the end."""
        before = 0
        while not self.over.wait(self.seconds):
            rate = (self.received - before) / self.seconds
            before = self.received
            left = (self.total - self.there) / rate if rate else None
            say(self.line(rate, left))

    def line(self, rate, left):
        """Bytes, share, rate and seconds left, for people."""
        share = self.there / self.total if self.total else 1
        after = "nothing arrives" if left is None else f"{left / 60:.0f} min {left % 60:.0f} s left"
        done, total = self.there / 10**9, self.total / 10**9
        return f"{done:.2f} of {total:.2f} GB ({share:.0%}), {rate / 2**20:.1f} MiB/s, {after}"


class Filling:
    """One file on its way: how far it is, its sum so far, and what the source called it."""

    def __init__(self, path, entry, file, mark_file, progress):
        self.path, self.size, self.sum = path, entry["bytes"], entry["sha256"]
        self.file, self.mark_file, self.progress = file, mark_file, progress
        self.have, self.digest = 0, hashlib.sha256()
        self.answers = self.overs = 0

    def resume(self):
        """Read what an earlier run left."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()
        self.file.chmod(0o644)
        if self.file.stat().st_size > self.size:
            self.drop()
        with self.file.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                self._count(chunk, received=False)
        self.answers = 2 if self.have else 0

    def is_as_listed(self):
        """Whether size and sum are those of the manifest."""
        return self.have == self.size and self.digest.hexdigest() == self.sum

    def drop(self):
        """Begin with nothing."""
        self.file.unlink()
        self.file.touch()
        self.progress.add(-self.have, received=False)
        self.have, self.digest, self.answers = 0, hashlib.sha256(), 0

    def start_over(self):
        """Drop what has the wrong sum, unless it came in one piece: then the source has that."""
        digest, pieces = self.digest.hexdigest(), self.answers
        self.drop()
        self.overs += 1
        if pieces < 2 or self.overs > STARTS_OVER:
            raise RefusedError(f"{self.path}: arrives with sum {digest}, listed is {self.sum}")
        say(f"{self.path}: what was there has the wrong sum, and is fetched anew")

    def receive(self, source, stop):
        """Append what the source has beyond what is there."""
        mark = self.mark_file.read_text("utf-8") if self.mark_file.exists() else ""
        answer = source.answer(self.path, self.have, mark or None)
        if answer.total not in (None, self.size):
            reason = f"the source has {answer.total} bytes, listed are {self.size}"
            raise RefusedError(f"{self.path}: {reason}")
        if answer.start != self.have:
            self.drop()
        self.answers += 1
        self.mark_file.write_text(answer.mark or "", "utf-8")
        with self.file.open("ab") as stream:
            for chunk in answer.chunks:
                if stop.is_set():
                    raise TryAgainError(f"{self.path}: left, since another file was refused")
                if self.have + len(chunk) > self.size:
                    raise RefusedError(f"{self.path}: the source has more than {self.size} bytes")
                stream.write(chunk)
                self._count(chunk, received=True)
        if self.have < self.size:
            raise TryAgainError(f"{self.path}: ended after {self.have} of {self.size} bytes")

    def finish(self):
        """Make the file durable, and nobody's to write."""
        self.file.chmod(0o444)
        _sync(self.file)
        self.mark_file.unlink(missing_ok=True)

    def _count(self, chunk, *, received):
        self.digest.update(chunk)
        self.have += len(chunk)
        self.progress.add(len(chunk), received=received)


def fill(filling, source, settings, stop):
    """Fetch one file until it is as listed; a source that fails is asked again, later each time."""
    failures, furthest = 0, filling.have
    while not filling.is_as_listed():
        if filling.have == filling.size:
            filling.start_over()
            furthest = 0
        try:
            filling.receive(source, stop)
        except TryAgainError as error:
            moved = filling.have - furthest
            failures = 0 if moved >= CHUNK_BYTES else failures + 1
            furthest += max(moved, 0)
            if failures >= settings["attempts"] or stop.is_set():
                raise
            pause = settings["pause_seconds"] * 2**failures * random.uniform(0.5, 1)  # noqa: S311
            pause = max(min(pause, WAIT_SECONDS), error.wait or 0)
            say(f"{error}; again in {pause:.0f} s")
            stop.wait(pause)
    filling.finish()


def fill_all(fillings, source, settings, progress):
    """Fetch every file, so many at once; the first one that is refused ends the others."""
    stop, problems = threading.Event(), []

    def one(filling):
        try:
            if not stop.is_set():
                fill(filling, source, settings, stop)
        except RefusedError as error:
            stop.set()
            problems.append(error)
        except TryAgainError as error:
            problems.append(error)
        except OSError as error:
            stop.set()
            problems.append(_broken(filling.path, error))

    threading.Thread(target=progress.report, daemon=True).start()
    with ThreadPoolExecutor(settings["connections"]) as pool:
        list(pool.map(one, fillings))
    progress.over.set()
    refusals = [error for error in problems if isinstance(error, RefusedError)]
    if refusals:
        raise RefusedError("\n".join(map(str, refusals)))
    if problems:
        raise TryAgainError("\n".join(map(str, problems)))


def _broken(path, error):
    if error.errno in FULL:
        return RefusedError(f"{path}: the volume is full; give it more room, or free some")
    return TryAgainError(f"{path}: cannot be written ({error})")


def refuse_little_room(volume, fillings):
    """Refuse before the first byte what cannot fit."""
    needed = sum(one.size - one.have for one in fillings) + SPARE_BYTES
    state = os.statvfs(volume)
    free = state.f_bavail * state.f_frsize
    if needed > free:
        others = sorted(one.name for one in volume.iterdir() if not one.name.startswith("."))
        raise RefusedError(
            f"{needed} bytes are needed and {free} are free; on the volume are the revisions "
            f"{', '.join(others) or '(none)'}: make it larger, or go back to the release that "
            "works, after which the others are collected"
        )


def is_published(volume, settings, wanted):
    """Whether the revision is there and whole; a damaged one is withdrawn, to be mended."""
    target, incoming = volume / settings["revision"], volume / INCOMING / settings["revision"]
    if target.is_symlink():
        raise RefusedError(f"{target}: is a link; remove it")
    # An empty folder is what a node makes of a mount whose folder is not there yet.
    if not target.is_dir() or not any(target.iterdir()):
        return False
    model = settings["model"]
    wrong = [f"{one.name}: is not in the manifest" for one in target.iterdir() if one.name != model]
    wrong += verify.problems_of(target / model, wanted, settings["connections"])
    for problem in wrong:
        say(f"damaged: {problem}")
    if wrong:
        shutil.rmtree(incoming / "files", ignore_errors=True)
        incoming.mkdir(parents=True, exist_ok=True)
        target.rename(incoming / "files")
    return not wrong


def tidy(files, model, wanted):
    """Remove what is no file of the manifest: strangers, links, folders in a file's place."""
    folders = {files / model, *(p for path in wanted for p in (files / model / path).parents)}
    expected = {files / model / path for path in wanted}
    for entry in sorted(files.rglob("*"), reverse=True):
        if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
            entry.unlink()
        elif entry.is_dir() and entry not in folders:
            shutil.rmtree(entry)
        elif entry.is_file() and entry not in expected:
            entry.unlink()


def publish(volume, incoming, target):
    """Show the revision: one rename, after everything it consists of is durable."""
    for folder, _, _ in os.walk(incoming / "files", topdown=False):
        _sync(Path(folder))
    (incoming / "files").rename(target)
    _sync(volume)


def _sync(path):
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextlib.contextmanager
def locked(volume):
    """Hold the volume alone; whoever comes second waits."""
    number = os.open(volume / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    waits = 0
    try:
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waits % 60 == 0:
                    say("another run holds the volume: waits for it to end")
                waits += 1
                time.sleep(1)
            except OSError as error:
                reason = f"the volume cannot lock files ({error}); mount Lustre with flock"
                raise RefusedError(reason) from None
        yield
    finally:
        os.close(number)


def populate(volume, settings, wanted):
    """Bring one revision onto the volume."""
    revision, model = settings["revision"], settings["model"]
    incoming, target = volume / INCOMING / revision, volume / revision
    if not is_published(volume, settings, wanted):
        files, marks = incoming / "files", incoming / "marks"
        for folder in (incoming.parent, incoming, files, files / model, marks):
            if folder.is_symlink():
                folder.unlink()
            folder.mkdir(exist_ok=True)
        tidy(files, model, wanted)
        progress = Progress(sum(one["bytes"] for one in wanted.values()), settings["every_seconds"])
        order = sorted(wanted, key=lambda path: (-wanted[path]["bytes"], path))
        fillings = [
            Filling(path, wanted[path], files / model / path, marks / str(number), progress)
            for number, path in enumerate(order)
        ]
        with ThreadPoolExecutor(settings["connections"]) as pool:
            list(pool.map(Filling.resume, fillings))
        refuse_little_room(volume, fillings)
        fill_all(fillings, source_of(settings["source"]), settings, progress)
        if problems := list(verify.shape_problems(files / model, wanted)):
            raise TryAgainError("\n".join(problems))
        publish(volume, incoming, target)
    os.utime(target)
    shutil.rmtree(incoming, ignore_errors=True)
    say(f"{revision}: is published, {len(wanted)} files as listed")


def main(settings, manifest, volume):
    """Fill the volume; return the exit status."""
    volume, settings = Path(volume), json.loads(Path(settings).read_text("utf-8"))
    try:
        wanted = checked(manifest)
        with locked(volume):
            populate(volume, settings, wanted)
    except RefusedError as error:
        print(f"refused: {error}", file=sys.stderr)
        print("Nothing was published, and trying again cannot help.", file=sys.stderr)
        return REFUSED
    except (TryAgainError, OSError) as error:
        print(f"stopped: {error}", file=sys.stderr)
        print("Nothing was published; another run continues here.", file=sys.stderr)
        return AGAIN
    return 0


if __name__ == "__main__":
    verify.end_when_asked()
    sys.exit(main(*sys.argv[1:]))
