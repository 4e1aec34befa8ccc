"""A folder as a host: commands run in it by chroot, files are copied into it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: root
short_description: Run in a folder by chroot
description:
  - For tests; needs root. Few file descriptors, since apt closes each of them one by one where
    there is no /proc/self/fd.
options:
  remote_addr:
    description: The folder.
    type: str
    vars:
      - name: ansible_host
"""

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}


class Connection(ConnectionBase):
    """The connection."""

    transport = "root"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    @property
    def _folder(self) -> str:
        return str(self.get_option("remote_addr"))

    def exec_command(self, cmd: str, in_data: Any = None, sudoable: bool = True) -> Any:
        """Run a shell line in the folder, unless the host is one that nothing answers from."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        if Path(self._folder, "lost").exists():
            raise AnsibleConnectionFailure("nothing answers")
        done = subprocess.run(
            ["/bin/sh", "-c", 'ulimit -n 256; exec chroot "$0" /bin/sh -c "$1"', self._folder, cmd],
            input=in_data if in_data is not None else b"",
            capture_output=True,
            env=ENVIRONMENT,
            cwd="/",
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the folder."""
        super().put_file(in_path, out_path)
        shutil.copy(in_path, self._folder + out_path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the folder."""
        super().fetch_file(in_path, out_path)
        shutil.copy(self._folder + in_path, out_path)

    def close(self) -> None:
        """There is nothing to close."""
        self._connected = False
