"""Every page is in the site's navigation, and every decision in the list of decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def pages(entry: Any) -> set[str]:
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        return {entry}
    below = entry.values() if isinstance(entry, dict) else entry
    return set().union(*map(pages, below))


def test_every_page_is_in_the_navigation() -> None:
    named = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert named == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_every_decision_is_listed_by_its_title() -> None:
    listed = dict(
        reversed(pair)
        for pair in re.findall(
            r"^\* \[(.+)\]\((.+)\)$", (DOCS / "decisions" / "README.md").read_text(), re.MULTILINE
        )
    )
    there = {
        page.name: page.read_text().splitlines()[0].removeprefix("# ")
        for page in (DOCS / "decisions").glob("*.md")
        if page.name != "README.md"
    }
    assert listed == there
