#!/usr/bin/python3
"""Proof that the GPUs of this host are as locked, as JSON; the node joins only if it holds.

Checks run in the order in which a fault shows: what is there, the kernel's log, memory and bus,
fabric, container runtime, then NVIDIA's own tests. Each ends as ``passed``, ``failed`` (the host is
not good), ``broke`` (it could not be told: never a pass) or ``skipped`` (it was not asked for).
Exit status: 0 all passed, 1 one failed, 3 one broke and none failed. Standard library only.
"""

import argparse
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import host_base
import host_checks
import host_gpu
import host_state
from host_checks import BROKE, FAILED, SKIPPED, BrokeError, SkipError


class Gate:
    """What the checks look at: the host, what it must be, and its state read once.

    With ``builder`` the host becomes an image, and its own GPUs, if it has any, do not count.
    """

    def __init__(self, host, expect, builder=False, pause=time.sleep):
        self.host = host
        self.pause = pause
        self.expect = expect
        self.builder = builder
        self.limits = expect["gate"]
        self.state = host_state.read(host, packages=list(expect["packages"]))

    def said(self, *command, seconds=host_base.PROGRAM_SECONDS):
        """Return a program's output; that it is missing or fails is no finding about GPUs."""
        answer = self.host.run(*command, seconds=seconds)
        if answer is None:
            raise BrokeError(f"{command[0]} did not run: it is missing, or takes over {seconds} s")
        if answer[0] != 0:
            tail = answer[1].strip().splitlines()[-1:] or ["nothing"]
            raise BrokeError(f"{command[0]} ended with {answer[0]}: {tail[0]}")
        return answer[1]

    def rows(self, *query):
        """Return what nvidia-smi says of each GPU, as lists of words: one list for each GPU."""
        lines = self.said("nvidia-smi", *query, "--format=csv,noheader,nounits").splitlines()
        rows = [[word.strip() for word in line.split(",")] for line in lines if line.strip()]
        if len(rows) != self.state["gpus"]:
            there = self.state["gpus"]
            raise BrokeError(f"nvidia-smi {query[0]} tells of {len(rows)} GPUs, {there} are there")
        return rows

    def gpu_devices(self):
        """Return the folders of the GPUs below /sys."""
        return ["/sys/bus/pci/devices/" + address for address in host_gpu.pci(self.host, "0x03")]


def examine(gate):
    """Return the result of each check, in order."""
    results = []
    for group, check in host_checks.CHECKS:
        result = {"group": group, "name": check.__name__, "measured": None, "expected": None}
        try:
            if gate.builder and check not in host_checks.WITHOUT_GPUS:
                raise SkipError("each node that boots the image is asked")
            result.update(check(gate))
        except SkipError as skip:
            result.update(outcome=SKIPPED, message=str(skip))
        except BrokeError as broke:
            result.update(outcome=BROKE, message=str(broke))
        except Exception as error:
            result.update(outcome=BROKE, message=f"{type(error).__name__}: {error}")
        results.append(result)
    return results


def exit_status(results):
    """Return 0 all passed, 1 one failed, 3 one could not be told."""
    outcomes = {result["outcome"] for result in results}
    return 1 if FAILED in outcomes else 3 if BROKE in outcomes else 0


def publish(path, text):
    """Replace the report whole."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def main(arguments=None):
    """Write the report and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--expect", required=True, help="JSON file of what the host must be")
    parser.add_argument("--output", required=True, help="where the report goes")
    parser.add_argument("--builder", action="store_true", help="the host becomes an image")
    parser.add_argument("--root", default="/", help="folder that stands for the host")
    given = parser.parse_args(arguments)
    with open(given.expect) as file:
        expect = json.load(file)
    results = examine(Gate(host_base.Host(given.root), expect, given.builder))
    status = exit_status(results)
    report = {"driver": expect["driver"], "exit_status": status, "checks": results}
    publish(given.output, json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))
    return status


if __name__ == "__main__":
    sys.exit(main())
