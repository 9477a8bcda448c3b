"""docs/monitoring.md explains every condition, every metric and every page."""

from pathlib import Path

from moldau.broker.monitor.document import renewed
from moldau.broker.monitor.pages import DESCRIPTIONS

DOCUMENT = Path(__file__).parents[3] / "docs" / "monitoring.md"


def test_the_tables_are_those_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == renewed(text), "run: python -m moldau.broker.monitor.document docs/monitoring.md"


def test_every_page_is_there() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for path in DESCRIPTIONS:
        assert f"| `{path}` |" in text
