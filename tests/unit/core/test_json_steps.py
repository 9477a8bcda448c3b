"""Counting the values of JSON text, and parsing it so that threads take turns."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.common.core import json_steps
from moldau.common.core.json_steps import has_more_values, load_in_steps

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[{"\\é\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet=',]}"\\'), inner),
)


def count_of(value: Any) -> int:
    """As `has_more_values` counts: what is empty counts for two."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if inner is None else 1 + (sum(map(count_of, inner)) or 1)


@given(value=VALUES, piece_bytes=st.integers(1, 9))
def test_values_are_counted_however_the_text_is_cut(value: Any, piece_bytes: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_steps, "_PIECE_BYTES", piece_bytes)
        count = count_of(value)
        assert has_more_values(text, count - 1)
        assert not has_more_values(text, count)


@given(value=VALUES)
def test_parsing_in_steps_gives_what_json_gives(value: Any) -> None:
    assert load_in_steps(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["", "[1,", '{"a" 1}', "[1] 2", '"\x01"', "nul", '{"a":1,}'])
def test_what_is_no_json_is_refused_with_the_same_words(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as usual:
        json.loads(text)
    with pytest.raises(json.JSONDecodeError) as stepped:
        load_in_steps(text)
    assert str(stepped.value) == str(usual.value)


def test_hooks_are_called() -> None:
    assert load_in_steps("[1.50, NaN]", parse_float=str, parse_constant=str.lower) == ["1.50", "nan"]
