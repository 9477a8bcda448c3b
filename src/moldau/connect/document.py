"""Writes the tables of docs/connect-transforms.md from the settings' rows.

    python -m moldau.connect.document docs/connect-transforms.md      (a test compares)

What stands above `MARK` is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from moldau.connect.finding import find
from moldau.connect.plugins import PLUGINS, Kind, Plugin
from moldau.connect.settings import REQUIRED, Setting

MARK = "<!-- from here on made by: python -m moldau.connect.document docs/connect-transforms.md -->\n"
_TITLES = {
    Kind.CONVERTER: "Settings of converters",
    Kind.TRANSFORM: "Settings of transforms",
    Kind.PREDICATE: "Settings of predicates",
}
_PREFIXES = {
    Kind.CONVERTER: "behind `key.converter.` or `value.converter.`",
    Kind.TRANSFORM: "behind `transforms.NAME.`",
    Kind.PREDICATE: "behind `predicates.NAME.`",
}


def tables() -> str:
    """All that stands below the mark."""
    parts: list[str] = []
    for kind, title in _TITLES.items():
        parts.append(f"## {title}\n\nThey stand {_PREFIXES[kind]}.\n")
        for names, rows, other in _plugins(kind):
            parts.append(f"### {names}\n\n{other}\n\n{_table(rows)}\n")
    return "\n".join(parts)


def _plugins(kind: Kind) -> Iterator[tuple[str, Sequence[Setting], str]]:
    """Names, rows and other names; the classes for keys and values are one."""
    seen: dict[str, list[Plugin]] = {}
    for plugin in PLUGINS:
        if plugin.kind is kind and plugin.place.startswith("moldau.connect."):
            package = plugin.other_names[0].partition("$")[0] if plugin.other_names else plugin.name
            seen.setdefault(package, []).append(plugin)
    for package, plugins in seen.items():
        names = " ".join(each.name for each in plugins)
        found: Any = find((kind,), plugins[0].other_names[0] if plugins[0].other_names else plugins[0].name)
        doc = " ".join((found.__doc__ or "").split())
        sides = ", ".join(f"`${each.name.partition('$')[2]}`" for each in plugins if "$" in each.name)
        where = f"`{package}`" + (f" with {sides}" if sides else "")
        yield names, found.settings, f"{doc} Also {where}."


def _table(rows: Sequence[Setting]) -> str:
    if not rows:
        return "No settings."
    lines = ["| setting | type | default | importance | what it is |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        choices = f" One of {', '.join(row.choices)}." if row.choices else ""
        effect = f" Without effect here: {row.without_effect}." if row.without_effect else ""
        doc = (row.doc + choices + effect).replace("|", "\\|")
        cells = (f"`{row.name}`", row.type.value.lower(), _default(row), row.importance.value.lower(), doc)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _default(row: Setting) -> str:
    if row.default is REQUIRED:
        return "required"
    if row.default is None or row.default in ((), ""):
        return ""
    text = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
    return f"`{text}`"


def page(text: str) -> str:
    """The page with the tables of now."""
    above, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"the page lacks the line {MARK!r}")
    return f"{above}{MARK}\n{tables()}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text()))
