"""The example's lock, resolved from packages that stand in for the vendors'.

``python -m tests.hosts.example`` writes it anew. Names, versions and dependencies are real ones;
the hashes are those of the stand-ins, so that no machine can ever install it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.hosts import repository
from tests.hosts.repository import Signer
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.lock_file import lock_text, make_lock
from tokenworks.hosts.request import LockRequest, read_request, request_path

STACKS = Path(__file__).resolve().parents[2] / "stacks"
NAME = "ubuntu-24.04-amd64-580-stand-in"


def resolved(folder: Path) -> HostLock:
    """Resolve the example's request from stand-ins, as if its repositories had served them."""
    signer = Signer(folder / "vendor")
    try:
        asked = read_request(request_path(STACKS, NAME))
        repository.publish(folder / "cuda", repository.driver_580(), signer)
        repository.publish(folder / "toolkit", repository.toolkit(), signer)
        repository.publish(folder / "ubuntu", repository.distribution(), signer, suite="noble")
        (folder / "keys").mkdir()
        for one in asked.repositories:
            (folder / "keys" / one.key_file).write_bytes(signer.armoured)
        local = [
            {**one.model_dump(mode="json"), "key_fingerprint": signer.fingerprint}
            | {"uri": f"file://{folder / one.name}"}
            for one in asked.repositories
        ]
        fields = asked.model_dump(mode="json") | {"repositories": local}
        lock = make_lock(LockRequest.model_validate(fields), folder / "keys")
    finally:
        signer.end()
    return lock.model_copy(
        update={"repositories": tuple(one.locked() for one in asked.repositories)}
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        text = lock_text(resolved(Path(temporary)))
    sys.stdout.write(text)
