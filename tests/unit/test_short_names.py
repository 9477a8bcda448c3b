"""Parameters of tests that are long are named shortly, and no two tests alike."""

import pytest
from short_names import SHORT, short_name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("x" * SHORT, None),
        ("x" * 61, "x" * 30 + "...61"),
        (b"\0" * 61, "\\x00" * 30 + "...61"),
        ("\n\u20ac" * 50, "\\n\\u20ac" * 15 + "...100"),
        (7, None),
        (["x" * 100], None),
    ],
    ids=["short", "text", "bytes", "escaped", "number", "list"],
)
def test_a_long_parameter_is_named_by_its_beginning_and_length(value: object, name: str | None) -> None:
    assert short_name(value) == name


@pytest.mark.parametrize("value", [bytes(1_000_000), b"\0" * 999_999 + b"1", "y" * 500, "z"])
def test_it_holds_of_tests_here(value: bytes | str, request: pytest.FixtureRequest) -> None:
    assert len(request.node.nodeid) < 300
    collected = [item.nodeid for item in request.session.items]
    assert collected.count(request.node.nodeid) == 1
