"""Removes revisions from a volume that no release uses, and nothing else.

usage: collect.py SETTINGS VOLUME

SETTINGS name the revisions that releases use, and how many others are kept for a way back: those
that were asked for last. Where a revision in use is not there, nothing is removed, since then the
settings are of another volume or another time.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import verify
from populate import AGAIN, INCOMING, REFUSED, RefusedError, locked, say

REVISION = re.compile("[0-9a-f]{12}-[0-9a-f]{12}")
REMOVED = ".removed"


def decide(found, in_use, previous):
    """What becomes of each revision: (name, whether it stays, why).

    ``found`` are the names on the volume, those asked for last first.
    """
    missing = sorted(set(in_use) - set(found))
    if missing:
        raise RefusedError(f"{', '.join(missing)}: is in use, and not on this volume")
    others = [name for name in found if name not in in_use]
    decisions = [(name, True, "a release uses it") for name in found if name in in_use]
    decisions += [(name, True, "a way back") for name in others[:previous]]
    decisions += [(name, False, "no release uses it") for name in others[previous:]]
    return decisions


def revisions(volume):
    """Names of the revisions on a volume, those asked for last first."""
    found = [
        entry
        for entry in volume.iterdir()
        if REVISION.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink()
    ]
    return [one.name for one in sorted(found, key=lambda one: (-one.stat().st_mtime_ns, one.name))]


def remove(volume, name):
    """Take a revision out of sight at once, and then apart."""
    removed = volume / REMOVED
    removed.mkdir(exist_ok=True)
    (volume / name).rename(removed / name)


def collect(volume, in_use, previous):
    """Carry out what was decided, and end what earlier runs began."""
    shutil.rmtree(volume / REMOVED, ignore_errors=True)
    for name, stays, because in decide(revisions(volume), in_use, previous):
        say(f"{name}: {'stays' if stays else 'is removed'}, {because}")
        if not stays:
            remove(volume, name)
    incoming = volume / INCOMING
    for entry in incoming.iterdir() if incoming.is_dir() else ():
        if entry.name not in in_use:
            say(f"{entry.name}: was never whole, and is removed")
            shutil.rmtree(entry, ignore_errors=True)
    shutil.rmtree(volume / REMOVED, ignore_errors=True)
    if (volume / REMOVED).exists():
        say("some files are still being read, and go with the next run")


def main(settings, volume):
    """Collect; return the exit status."""
    settings = json.loads(Path(settings).read_text("utf-8"))
    try:
        with locked(Path(volume)):
            collect(Path(volume), settings["in_use"], settings["previous"])
    except RefusedError as error:
        print(f"refused: {error}; nothing was removed", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"stopped: {error}; another run continues here", file=sys.stderr)
        return AGAIN
    return 0


if __name__ == "__main__":
    verify.end_when_asked()
    sys.exit(main(*sys.argv[1:]))
