"""Patterns of topics that clients send: what they may cost."""

from __future__ import annotations

import pytest

from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v2.topic_patterns import compiled


def test_a_pattern_matches_whole_names() -> None:
    assert compiled("orders-.*")("orders-1")
    assert not compiled("orders-.*")("my-orders-1")


def test_a_short_pattern_with_a_large_program_is_refused() -> None:
    """Compiled patterns are kept, so some hundred of them, each of megabytes, would fill the memory."""
    with pytest.raises(HttpProblem) as refused:
        compiled(r"\pL{100}")
    assert refused.value.status == 422
