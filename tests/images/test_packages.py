"""Which packages a program needs, from what dpkg says of an installed system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.errors import OperationError
from tokenworks.images.packages import closure, files_of, read_status

STATUS = """\
Package: python3
Status: install ok installed
Depends: python3.11 (>= 3.11.1-1~), libpython3-stdlib (= 3.11.2-1+b1)
Description: interpreter
 Depends: this line is a description, not a field

Package: python3.11
Pre-Depends: libc6 (>= 2.36)
Depends: media-types | mime-support, libssl-any:any

Package: libpython3-stdlib
Depends: python3.11

Package: mime-support

Package: libssl3
Provides: libssl-any (= 3), other

Package: libc6

Package: unrelated
"""


def test_what_is_needed_comes_along_through_alternatives_and_other_names() -> None:
    found = closure(read_status(STATUS), ["python3"])
    assert found == (
        "libc6",
        "libpython3-stdlib",
        "libssl3",
        "mime-support",
        "python3",
        "python3.11",
    )


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(OperationError, match="package media-types"):
        closure(read_status(STATUS.replace("Package: mime-support", "Package: x")), ["python3"])


def test_files_lie_where_links_of_the_root_lead_and_nobody_becomes_root(tmp_path: Path) -> None:
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "share" / "doc").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "usr" / "bin" / "su").write_bytes(b"su")
    (tmp_path / "usr" / "bin" / "su").chmod(0o4755)
    (tmp_path / "usr" / "share" / "doc" / "su").write_text("read me")
    info = tmp_path / "var" / "lib" / "dpkg" / "info"
    info.mkdir(parents=True)
    (info.parent / "status").write_text("Package: su\n")
    (info / "su:amd64.list").write_text("/.\n/bin\n/bin/su\n/usr/share/doc/su\n/gone\n")
    found = {entry.path: entry for entry in files_of(tmp_path, ["su"])}
    assert set(found) == {"bin", "usr/bin/su"}
    assert found["bin"].link == "usr/bin"
    assert found["usr/bin/su"].mode == 0o755
