"""Which kernel GRUB starts next: told where it is certain, and never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.fake_root import fake_host, host_base

UUID = "3f8a4a4e"
NEW, OLD = "6.8.0-90-generic", "6.8.0-87-generic"
ADVANCED, ENTRY = "Advanced options for Ubuntu", "Ubuntu, with Linux {}"
# As grub-mkconfig's 00_header, 10_linux and 30_uefi-firmware write it.
HEADER = """
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="{default}"
fi
function recordfail {{
  set recordfail=1
  if [ -n "${{have_grubenv}}" ]; then if [ -z "${{boot_once}}" ]; then save_env recordfail; fi; fi
}}
"""
SIMPLE = f"""
menuentry 'Ubuntu' --class ubuntu --class gnu-linux $menuentry_id_option 'gnulinux-simple-{UUID}' {{
\trecordfail
\tlinux\t/boot/vmlinuz-{NEW} root=UUID={UUID} ro quiet
\tinitrd\t/boot/initrd.img-{NEW}
}}
"""
EACH = "".join(
    f"""
menuentry '{ENTRY.format(kernel)}{mode}' $menuentry_id_option 'gnulinux-{kernel}-{name}-{UUID}' {{
\tlinux\t/boot/vmlinuz-{kernel} root=UUID={UUID} ro
}}
"""
    for kernel in (NEW, OLD)
    for mode, name in (("", "advanced"), (" (recovery mode)", "recovery"))
)
FIRMWARE = """
if [ "$grub_platform" = "efi" ]; then
\tmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {
\t\tfwsetup
\t}
fi
"""
SUBMENU = f"submenu '{ADVANCED}' $menuentry_id_option 'gnulinux-advanced-{UUID}' {{\n{EACH}}}\n"
IDS = f"gnulinux-advanced-{UUID}>gnulinux-{OLD}-advanced-{UUID}"


def booted(folder: Path, default: str, kept: str = "", *, submenu: bool = True) -> str | None:
    """What the next boot starts, by a configuration with or without a submenu."""
    menu = SIMPLE + SUBMENU if submenu else EACH
    files = {
        "boot/grub/grub.cfg": HEADER.format(default=default) + menu + FIRMWARE,
        "boot/grub/grubenv": "# GRUB Environment Block\n" + kept,
    }
    kernel: str | None = host_base.boot_kernel(fake_host(folder, files))
    return kernel


@pytest.mark.parametrize(
    ("default", "kernel"),
    [
        ("0", NEW),
        ("Ubuntu", NEW),
        (f"gnulinux-simple-{UUID}", NEW),
        (f"{ADVANCED}>{ENTRY.format(OLD)}", OLD),
        (f"{ADVANCED}>{ENTRY.format(NEW)}", NEW),
        (IDS, OLD),
        ("1>2", OLD),
        (f"{ADVANCED}>2", OLD),
    ],
)
def test_the_whole_path_leads_to_the_kernel_that_boots(
    tmp_path: Path, default: str, kernel: str
) -> None:
    assert booted(tmp_path, default) == kernel


@pytest.mark.parametrize(
    "default",
    [
        "1",
        ADVANCED,
        "1>9",
        "9",
        f"{ADVANCED}>Ubuntu, with Linux 6.8.0-1-generic",
        ENTRY.format(OLD),
        f"Ubuntu>{ENTRY.format(OLD)}",
        "2",
        "UEFI Firmware Settings",
        "$somewhere",
        "",
    ],
)
def test_a_path_that_leads_to_no_kernel_is_not_taken_for_another(
    tmp_path: Path, default: str
) -> None:
    assert booted(tmp_path, default) is None


def test_without_a_submenu_a_path_through_it_leads_nowhere(tmp_path: Path) -> None:
    """GRUB starts its first entry instead, which is the newest kernel."""
    path = f"{ADVANCED}>{ENTRY.format(OLD)}"
    assert booted(tmp_path / "with", path) == OLD
    assert booted(tmp_path / "without", path, submenu=False) is None
    assert booted(tmp_path / "title", ENTRY.format(OLD), submenu=False) == OLD


@pytest.mark.parametrize(
    ("kept", "kernel"),
    [
        (f"saved_entry={IDS}\n", OLD),
        ("saved_entry=0\n", NEW),
        (f"saved_entry=0\nprev_saved_entry={IDS}\n", OLD),
        (f"saved_entry=0\nnext_entry={IDS}\n", OLD),
        ("saved_entry=gone\n", None),
        ("", None),
    ],
)
def test_a_saved_entry_is_read_from_the_environment_block(
    tmp_path: Path, kept: str, kernel: str | None
) -> None:
    assert booted(tmp_path, "${saved_entry}", kept) == kernel


def test_what_is_asked_for_once_comes_before_the_default(tmp_path: Path) -> None:
    assert booted(tmp_path, "0", f"next_entry={IDS}\n") == OLD


def test_two_defaults_are_no_default(tmp_path: Path) -> None:
    files = {"boot/grub/grub.cfg": HEADER.format(default="0") + SIMPLE + 'set default="1"\n'}
    assert host_base.boot_kernel(fake_host(tmp_path, files)) is None


def test_titles_may_hold_quotes_and_signs_of_paths(tmp_path: Path) -> None:
    title = "'It'\\''s > all'"
    entry = f"menuentry {title} --id one {{\n\tlinux /boot/vmlinuz-{OLD} ro\n}}\n"
    for number, default in enumerate(("It's >> all", "one")):
        files = {"boot/grub/grub.cfg": HEADER.format(default=default) + SIMPLE + entry}
        assert host_base.boot_kernel(fake_host(tmp_path / str(number), files)) == OLD
