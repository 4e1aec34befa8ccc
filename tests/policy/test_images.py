from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.images import LONGEST_NAME, ImageError, ImageReference, parse_image

_WORD = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
_COMPONENT = st.builds(
    lambda first, rest: first + "".join(rest),
    _WORD,
    st.lists(
        st.builds("{}{}".format, st.sampled_from([".", "_", "__", "-", "---"]), _WORD), max_size=2
    ),
)
_HOST = st.one_of(
    st.just("localhost"),
    st.builds("{}.{}".format, _WORD, _WORD),
    st.builds(str.upper, st.text(string.ascii_lowercase, min_size=1, max_size=5)),
    st.sampled_from(["[::1]", "[2001:db8::1]"]),
)
_REGISTRY = st.builds(
    lambda host, port: host if port is None else f"{host}:{port}",
    _HOST,
    st.none() | st.integers(1, 65535),
)
_TAG = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=128).filter(
    lambda tag: tag[0] not in ".-"
)
_DIGEST = st.text("0123456789abcdef", min_size=64, max_size=64).map("sha256:{}".format)


@st.composite
def references(draw: st.DrawFn) -> ImageReference:
    registry = draw(st.none() | _REGISTRY)
    components = draw(st.lists(_COMPONENT, min_size=1, max_size=4))
    if registry is None:
        # Without a registry, a first component that looks like one would be read as one.
        components = [components[0].replace(".", "-"), *components[1:]]
        if len(components) > 1 and components[0] == "localhost":
            components[0] = "host"
    return ImageReference(
        registry=registry,
        repository="/".join(components),
        tag=draw(st.none() | _TAG),
        digest=draw(st.none() | _DIGEST),
    )


@given(references())
def test_a_reference_survives_being_written_and_read(reference: ImageReference) -> None:
    assert parse_image(str(reference)) == reference


@given(st.text(max_size=80) | st.text("aA0:/@._-[]sha256", max_size=60))
def test_any_text_is_refused_or_read_back_exactly(text: str) -> None:
    try:
        reference = parse_image(text)
    except ImageError:
        return
    assert str(reference) == text


@given(references(), st.text(min_size=1, max_size=80))
def test_whatever_follows_the_at_sign_is_a_whole_digest_or_refused(
    reference: ImageReference, digest: str
) -> None:
    named = str(ImageReference(registry=reference.registry, repository=reference.repository))
    try:
        parsed = parse_image(f"{named}@{digest}")
    except ImageError:
        return
    assert parsed.digest == digest
    assert len(digest) == len("sha256:") + 64


@given(references())
def test_an_error_never_repeats_the_text(reference: ImageReference) -> None:
    with pytest.raises(ImageError) as caught:
        parse_image(f"{reference}@password")
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag"),
    [
        ("nginx", None, "nginx", None),
        ("library/nginx:1.27", None, "library/nginx", "1.27"),
        ("reg:5000/nginx", "reg:5000", "nginx", None),
        (
            "nvcr.io/nvidia/tensorrt-llm/release:1.2.1",
            "nvcr.io",
            "nvidia/tensorrt-llm/release",
            "1.2.1",
        ),
        ("localhost/x", "localhost", "x", None),
        ("HOST/x", "HOST", "x", None),
    ],
)
def test_known_references_have_known_parts(
    text: str, registry: str | None, repository: str, tag: str | None
) -> None:
    assert parse_image(text) == ImageReference(registry=registry, repository=repository, tag=tag)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "repository name"),
        ("nginx:", "empty or malformed tag"),
        ("nginx:-x", "empty or malformed tag"),
        ("nginx:a b", "empty or malformed tag"),
        ("Nginx", "repository name"),
        ("a//b", "repository name"),
        ("reg.io/", "repository name"),
        ("reg_.io/x", "registry"),
        ("https://reg.io/x", "registry"),
        ("nginx@", "malformed digest"),
        ("a" * 64, "local image identifier"),
        ("x/" * 128 + "x", "more than 255"),
        ("x" * 5000, "longer"),
    ],
)
def test_malformed_references_are_refused_with_the_part_that_is_wrong(
    text: str, reason: str
) -> None:
    with pytest.raises(ImageError, match=reason if reason != "longer" else "characters long"):
        parse_image(text)


# The grammar as distribution/reference writes it (regexp.go), to compare with: any algorithm of
# digest, and a first component that may be read as a host or as part of the path.
_GRAMMAR = re.compile(
    r"(?P<name>(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_MUTATED = st.builds(
    lambda reference, at, letter, keep: (
        str(reference)[: at % (len(str(reference)) + 1)]
        + letter
        + str(reference)[(at + (0 if keep else 1)) % (len(str(reference)) + 1) :]
    ),
    references(),
    st.integers(0, 400),
    st.sampled_from([*"aZ09:/@._-[] \n+", "", "__", "//", "sha256:"]),
    st.booleans(),
)


@given(st.text("aZ0:/@._-[]", max_size=14) | _MUTATED)
def test_what_is_read_is_what_the_grammar_of_registries_reads(text: str) -> None:
    match = _GRAMMAR.fullmatch(text)
    try:
        reference = parse_image(text)
    except ImageError:
        assert match is None or is_refused_on_purpose(match)
        return
    assert match is not None
    assert (reference.tag, reference.digest) == (match["tag"], match["digest"])


def is_refused_on_purpose(match: re.Match[str]) -> bool:
    """Return whether the grammar's reading is one that no registry could serve as a pin."""
    digest, name = match["digest"], match["name"]
    first, slash, _ = name.partition("/")
    no_host = bool(slash) and "." in first and re.search(r"_|--|-\.|\.-", first) is not None
    identifier = re.fullmatch(r"[0-9a-f]{64}", name) is not None
    loose = digest is not None and re.fullmatch(r"sha256:[0-9a-f]{64}", digest) is None
    return loose or identifier or no_host or len(name) > LONGEST_NAME
