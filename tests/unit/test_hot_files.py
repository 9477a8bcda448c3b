"""Hot files say their budget: those of the table in docs/ARCHITECTURE.md name the benchmark that checks
it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _budgets() -> dict[str, float]:
    for node in ast.parse((ROOT / "bench/hot_path.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BUDGETS":
            return dict(ast.literal_eval(node.value))
    raise AssertionError("bench/hot_path.py has no BUDGETS")


BUDGETS = _budgets()


def _named() -> list[str]:
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    section = text[text.index("## Hot files") :]
    rows = [
        line for line in section[: section.index("\nThe two kernels")].splitlines() if line.startswith("| ")
    ]
    names = []
    for quoted in re.findall(r"`([^`]+\.py)`", " ".join(rows)):
        found = re.fullmatch(r"(.*)\{(.*)\}(.*)", quoted)
        names += [quoted] if found is None else [found[1] + one + found[3] for one in found[2].split(",")]
    return names


@pytest.mark.parametrize("name", _named())
def test_a_hot_file_says_its_budget_and_who_checks_it(name: str) -> None:
    found = [path for path in (ROOT / "src/moldau").rglob(Path(name).name) if str(path).endswith("/" + name)]
    assert len(found) == 1, found
    header = ast.get_docstring(ast.parse(found[0].read_text())) or ""
    assert re.search(r"\bhot\b|hand-tuned", header, re.IGNORECASE)
    assert re.search(r"\bbudget", header, re.IGNORECASE)
    assert "bench/" in header


def test_the_budgets_are_those_of_the_benchmark() -> None:
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    produce = BUDGETS["decode of a Produce request"] + BUDGETS["answer to a Produce request"]
    fetch = BUDGETS["decode of a Fetch request"] + BUDGETS["answer to a Fetch request"]
    assert f"| {produce:g}; {fetch:g} |" in text
    assert f"| {BUDGETS['produce request, 100 a turn, all but the socket']:g} |" in text
    assert f"| {BUDGETS['log append, 100 a turn']:g} |" in text
    woken = BUDGETS["parked fetch woken by a record, all but the socket"]
    assert f"| {BUDGETS['fetch of one record, all but the socket']:g}; {woken:g} |" in text
