"""What people see while tools are built."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tokenworks.toolchain import Phase, Progress, progress, showing
from tokenworks.toolchain.progress import took


def compiling(detail: str) -> Progress:
    return Progress(module="kwok", phase=Phase.COMPILING, detail=detail)


def test_a_log_has_one_line_for_each_change_and_none_for_each_package() -> None:
    file = io.StringIO()
    with showing(Console(file=file, width=40)) as report:
        report(Progress(module="kwok", phase=Phase.FETCHING))
        for number in range(100):
            report(compiling(f"{number} packages"))
        report(Progress(module="kwok", phase=Phase.DONE))
    assert file.getvalue().splitlines() == [
        "kwok: fetching (0 s)",
        "kwok: compiling, 0 packages (0 s)",
        "kwok: done (0 s)",
    ]


def test_a_log_says_now_and_then_that_a_long_build_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_SECONDS", 0)
    file = io.StringIO()
    with showing(Console(file=file, width=200)) as report:
        report(compiling("1 package"))
        report(compiling("2 packages"))
    assert len(file.getvalue().splitlines()) == 2


def test_a_terminal_shows_every_module_with_its_state_and_time() -> None:
    file = io.StringIO()
    with showing(Console(file=file, force_terminal=True, width=80)) as report:
        report(compiling("7 packages, k8s.io/api"))
        report(Progress(module="etcd", phase=Phase.DONE))
    last = file.getvalue().splitlines()[-3:]
    assert any("kwok" in line and "compiling" in line and "7 packages" in line for line in last)
    assert any("etcd" in line and "done" in line for line in last)


@pytest.mark.parametrize("terminal", [True, False])
def test_markup_in_a_package_name_is_shown_as_it_is(terminal: bool) -> None:
    file = io.StringIO()
    with showing(Console(file=file, width=200, force_terminal=terminal)) as report:
        report(compiling("[bold]x[/nonsense]"))
    assert "[bold]x[/nonsense]" in file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s")]
)
def test_a_duration_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert took(seconds) == said
