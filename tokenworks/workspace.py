"""Where things lie: the checkout, its environments, and what a machine keeps of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROJECT = "tokenworks"
PROGRAMS = {
    "simulated": ("cluster", "serving"),
    "hosts": ("cluster", "serving"),
    "aws": ("network", "storage", "image", "cluster", "serving"),
}
"""Programs of each platform, in the order in which they are brought up."""


@dataclass(frozen=True)
class Workspace:
    """Paths of one checkout; ``.tokenworks`` belongs to this machine and is never committed."""

    root: Path

    @property
    def stacks(self) -> Path:
        """Environment files, the lock, and the settings of Pulumi's stacks."""
        return self.root / "stacks"

    @property
    def machine(self) -> Path:
        """Everything that belongs to this machine only."""
        return self.root / ".tokenworks"

    @property
    def state(self) -> Path:
        """Pulumi's file backend."""
        return self.machine / "state"

    @property
    def passphrase(self) -> Path:
        """File with the passphrase that encrypts secrets in state and settings."""
        return self.machine / "passphrase"

    @property
    def policy_pack(self) -> Path:
        """The policy pack that every update runs."""
        return self.root / "policy" / "tokenworks-policy"

    @property
    def chosen(self) -> Path:
        """Name of the environment that was chosen for this machine where nobody named one."""
        return self.machine / "chosen"

    def kubeconfig(self, environment: str, given: str | None = None) -> Path:
        """Credentials for the cluster of an environment: in the file that is given, or one here."""
        return Path(given).expanduser() if given else self.machine / environment / "kubeconfig"

    def stand_ins(self, environment: str) -> Path:
        """The images that were made here for the real node of a local environment."""
        return self.machine / environment / "images.json"

    def certificates(self, environment: str) -> Path:
        """Folder with an environment's local CA and the gateway's certificate."""
        return self.machine / environment / "tls"

    def settings(self, stack: str) -> Path:
        """Pulumi's settings of one stack."""
        return self.stacks / f"Pulumi.{stack}.yaml"


def stack_name(environment: str, program: str) -> str:
    """Name of the stack that holds one program of an environment."""
    return f"{environment}-{program}"


def split_stack(stack: str) -> tuple[str, str]:
    """Environment and program of a stack; the program is what follows the last hyphen."""
    environment, _, program = stack.rpartition("-")
    return environment, program


def find_workspace(start: Path | None = None) -> Workspace:
    """The checkout around a folder, by default the working directory, else this file's own."""
    folder = start or Path.cwd()
    for candidate in (folder, *folder.parents, Path(__file__).resolve().parent.parent):
        if (candidate / "Pulumi.yaml").is_file() and (candidate / "stacks").is_dir():
            return Workspace(candidate)
    return Workspace(folder)
