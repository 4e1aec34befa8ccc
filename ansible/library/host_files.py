#!/usr/bin/python
"""All managed files of a host in one round trip, each replaced whole, and the steps they owe.

Standard library only, Python 3.8 or newer. What has to follow is noted on the host before anything
is written, so that a run that is cut off leaves word of it.
"""

import json
import os
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: host_files
short_description: Write all managed files of a host and note the steps that must follow
description:
  - Each file is written beside its place and renamed, owned by root.
  - Files that are as wanted are not touched.
options:
  files:
    description: Path, text and mode (octal, as text) of each file.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: str
        required: true
      text:
        description: The whole text.
        type: str
        required: true
      mode:
        description: Octal mode, such as '0644'.
        type: str
        required: true
  owed:
    description: Steps that this run still has to take; an empty list settles them, none leaves
      the note as it is.
    type: list
    elements: str
author:
  - tokenworks
"""

EXAMPLES = """
- name: Write what changed
  host_files:
    files:
      - {path: /etc/apt/preferences.d/00-tokenworks, text: "…", mode: '0644'}
    owed: [initramfs]
"""

RETURN = """
written:
  description: Paths that were written, or would be.
  returned: always
  type: list
  elements: str
"""

OWED = "/var/lib/tokenworks/owed.json"


def differs(file):
    """Return whether a file is missing, has another text or mode, or another owner."""
    try:
        status = os.lstat(file["path"])
        if not stat.S_ISREG(status.st_mode) or status.st_uid != 0:
            return True
        if stat.S_IMODE(status.st_mode) != int(file["mode"], 8):
            return True
        with open(file["path"], "rb") as present:
            return present.read() != file["text"].encode("utf-8")
    except OSError:
        return True


def write(file):
    """Replace a file whole: whoever reads it finds the old text or the new one."""
    folder = os.path.dirname(file["path"])
    os.makedirs(folder, mode=0o755, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".tokenworks-")
    try:
        with os.fdopen(descriptor, "wb") as new:
            new.write(file["text"].encode("utf-8"))
            new.flush()
            os.fchown(new.fileno(), 0, 0)
            os.fchmod(new.fileno(), int(file["mode"], 8))
            os.fsync(new.fileno())
        os.replace(temporary, file["path"])
    except BaseException:
        os.unlink(temporary)
        raise


def note(owed):
    """Return the file that says which steps are owed, and at which boot that was noted."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
    except OSError:
        boot_id = ""
    text = json.dumps({"steps": owed, "boot_id": boot_id}) + "\n"
    return {"path": OWED, "text": text, "mode": "0644"}


def settled():
    """Return whether nothing is owed."""
    try:
        with open(OWED, encoding="utf-8") as file:
            return not json.load(file)["steps"]
    except (OSError, ValueError, KeyError):
        return not os.path.exists(OWED)


def main():
    """Answer Ansible."""
    files = {
        "path": {"type": "str", "required": True},
        "text": {"type": "str", "required": True},
        "mode": {"type": "str", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "default": [], "options": files},
            "owed": {"type": "list", "elements": "str"},
        },
        supports_check_mode=True,
    )
    stale = [file for file in module.params["files"] if differs(file)]
    owed = module.params["owed"]
    noting = owed is not None and not (owed == [] and settled())
    if not module.check_mode:
        try:
            for file in ([note(owed)] if noting else []) + stale:
                write(file)
        except OSError as error:
            module.fail_json(
                msg=f"cannot write {error.filename}: {error.strerror}; check that the file system "
                "is mounted for writing and has room"
            )
    module.exit_json(changed=bool(stale or noting), written=[file["path"] for file in stale])


if __name__ == "__main__":
    main()
