from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.networks import is_private
from policy.versions import (
    is_commit,
    is_exact_version,
    is_kubernetes_minor,
    is_node_release,
    is_package_version,
    is_template_version,
)

NUMBERS = st.integers(0, 10**6)


@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from(["", "-rc.1", "-0", "+build.7", "-a.b+c.d"]))
def test_three_numbers_are_exact_with_or_without_v(
    major: int, minor: int, patch: int, rest: str
) -> None:
    version = f"{major}.{minor}.{patch}{rest}"
    assert is_exact_version(version)
    assert is_exact_version(f"v{version}")


@given(
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.sampled_from(["^", "~", ">", ">=", "<", "<=", "=", "!=", "~=", "~>", "*", " "]),
)
def test_an_operator_makes_a_version_inexact(
    major: int, minor: int, patch: int, operator: str
) -> None:
    version = f"{major}.{minor}.{patch}"
    assert not is_exact_version(operator + version)
    assert not is_exact_version(version + operator)
    assert not is_exact_version(f"{version}, {version}")
    assert not is_exact_version(f"{version} || {version}")
    assert not is_exact_version(f"{version} - {version}")


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "1.2.x", "1.x", "x", "*", "latest", "stable", "1.2.3.4", "1.2.3\n", "V1.2.3",
     "01.2.3", "1.2.3-", "1.2.3+", "1.2.3-a..b", "\u0661.\u0662.\u0663"],
)  # fmt: skip
def test_what_is_not_three_numbers_is_inexact(text: str) -> None:
    assert not is_exact_version(text)


def test_kubernetes_is_pinned_by_its_minor_version() -> None:
    assert is_kubernetes_minor("1.36")
    assert not any(is_kubernetes_minor(text) for text in ("1", "1.36.2", "latest", "1.36\n", "1.*"))


def test_a_node_image_is_pinned_by_patch_and_date() -> None:
    assert is_node_release("1.36.2-20260714")
    assert not any(is_node_release(text) for text in ("1.36", "1.36.2", "1.36.2-latest"))


@pytest.mark.parametrize(
    ("cidr", "private"),
    [
        ("10.0.0.0/8", True),
        ("10.1.2.3", True),
        ("172.16.0.0/12", True),
        ("172.16.0.0/11", False),
        ("192.168.0.0/16", True),
        ("192.0.2.0/24", False),
        ("100.64.0.0/10", True),
        ("0.0.0.0/0", False),
        ("::/0", False),
        ("fd00::/8", True),
        ("::ffff:10.0.0.0/104", False),
        ("10.0.0.0/99", False),
        ("", False),
        ("private", False),
    ],
)
def test_private_ranges_are_those_of_the_standards_and_no_others(cidr: str, private: bool) -> None:
    assert is_private(cidr) is private


RANGES = st.sampled_from(
    ["^{}", "~{}", ">={}", "<{}", "{}.x", "{}.*", "{}-", "{} || {}", "{} - {}", "={}", "!={}",
     "{},", "[{},{}]", "({},]", "{}+", "~>{}", "latest", "*", "x", "", "v", "{}\n", " {}"]
)  # fmt: skip


@given(RANGES, NUMBERS, NUMBERS, NUMBERS)
def test_no_range_is_an_exact_version_of_any_kind(
    form: str, major: int, minor: int, patch: int
) -> None:
    text = form.replace("{}", f"{major}.{minor}.{patch}")
    for is_exact in (is_exact_version, is_kubernetes_minor, is_node_release, is_package_version):
        assert not is_exact(text)
    assert not is_template_version(text)


@given(st.text(max_size=12))
def test_what_is_exact_has_three_numbers_and_no_sign_of_a_range(text: str) -> None:
    if is_exact_version(text):
        assert text.isascii()
        assert not set(text) & set("^~<>=*|, ")
        assert text.count(".") >= 2


@pytest.mark.parametrize(
    ("version", "exact"),
    [
        ("580.95.05", True),
        ("470.57", True),
        ("580.95.05-0ubuntu1", True),
        ("1:580.95.05-0ubuntu0.24.04.1", True),
        ("1.18.0~rc.1-1", True),
        ("v1.18.0-ubuntu22.04", True),
        ("580", False),
        ("580.*", False),
        ("580.x", False),
        ("580-open", False),
        ("latest", False),
        (">=580.95", False),
        ("580.95.05 ", False),
    ],
)
def test_a_package_is_pinned_by_more_than_its_branch(version: str, exact: bool) -> None:
    assert is_package_version(version) is exact


def test_a_template_is_pinned_by_a_number() -> None:
    assert is_template_version("3")
    assert not any(
        map(is_template_version, ("$Latest", "$Default", "0", "-1", "3.0", "", "latest"))
    )


@given(st.text("0123456789abcdefABCDEF", min_size=38, max_size=42))
def test_a_commit_has_forty_lower_case_digits(text: str) -> None:
    assert is_commit(text) is (len(text) == 40 and text == text.lower())


def test_a_release_of_bottlerocket_names_its_commit() -> None:
    assert is_node_release("1.20.3-5d9ac849")
    assert not any(map(is_node_release, ("1.20.3", "1.20.3-latest", "1.20.3-5d9ac84")))
