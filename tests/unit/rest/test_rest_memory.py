"""What the budgets count is what the process really holds, for the shapes that are worst."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from memory_shapes import SHAPES, Endless

from moldau.services.http.context import MemoryBudget, RequestContext
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.reading import _consumed

PROGRAM = Path(__file__).with_name("memory_shapes.py")
SLACK_BYTES = 8 * 1024 * 1024


@pytest.mark.parametrize("shape", SHAPES)
def test_a_budget_counts_what_is_held(shape: str) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), shape], capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    assert found["grown"] <= 1.15 * found["counted"] + SLACK_BYTES
    if "records" in shape or "schema" in shape:  # of the others only the most is known without parsing
        assert found["counted"] <= 3 * found["grown"] + 4 * SLACK_BYTES


def test_a_request_that_could_never_fit_is_not_told_to_try_again() -> None:
    context = RequestContext(MemoryBudget(1000), 1000, 10, 1.0, ())
    other = RequestContext(context.budget, 1000, 10, 1.0, ())
    context.hold(600)
    with pytest.raises(HttpProblem) as busy:
        other.hold(600)
    assert busy.value.status == 503
    with pytest.raises(HttpProblem) as too_much:
        context.hold(600)
    assert too_much.value.status == 413
    context.release()
    other.hold(600)


def test_a_reader_takes_few_large_records_and_many_small_ones() -> None:
    assert len(_consumed(Endless(1024 * 1024), 100, 1.0)) == 1
    assert 2 <= len(_consumed(Endless(50_000), 100, 1.0)) <= 7
    assert len(_consumed(Endless(100), 100, 1.0)) == 100
