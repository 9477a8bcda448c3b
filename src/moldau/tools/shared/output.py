"""Output of commands: a rich table on a terminal, aligned plain text in a pipe, JSON with --json.

Plain headings are those of Kafka's tools (GROUP TOPIC PARTITION CURRENT-OFFSET ...), so scripts that cut
columns from their output keep working. Rich is imported only for a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_json(value: object) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def headings(keys: str, **others: str) -> dict[str, str]:
    """The headings of columns with these keys, as Kafka's tools write them (log_end_offset: LOG-END-OFFSET);
    `others` are headings that are not the key.
    """
    return {key: others.get(key) or key.upper().replace("_", "-") for key in keys.split()}


def print_rows(as_json: bool, rows: Sequence[Row], columns: Mapping[str, str], *, empty: str = "") -> None:
    """Print `rows` as JSON for programs, or as a table."""
    if as_json:
        print_json(rows)
    else:
        print_table(rows, columns, empty=empty)


def print_table(rows: Sequence[Row], columns: Mapping[str, str], *, title: str = "", empty: str = "") -> None:
    """Print `rows`. `columns` maps a row's key to its heading, in order; `empty` is printed if there is
    no row.
    """
    if not rows:
        note(empty)
        return
    if on_terminal():
        _print_rich_table(rows, columns, title)
    else:
        print(plain_table(rows, columns))


def plain_table(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """Align `rows` with spaces: the headings, then a line a row; a missing value is a dash."""
    lines = [list(columns.values()), *([_cell(row.get(key)) or "-" for key in columns] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _print_rich_table(rows: Sequence[Row], columns: Mapping[str, str], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, header_style="bold cyan")
    for key, heading in columns.items():
        numeric = all(isinstance(row.get(key), int | float | None) for row in rows)
        table.add_column(words_of(heading), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Brackets in names and values are text, not rich's markup.
        table.add_row(*(_cell(row.get(key)).replace("[", "\\[") or "[dim]-[/dim]" for key in columns))
    Console().print(table)


def words_of(heading: str) -> str:
    """Write LOG-END-OFFSET and TransactionalId as words, which a terminal can wrap."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", heading).lower().replace("-", " ")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def note(text: str) -> None:
    """Print a message that is not the command's output, to standard error."""
    if text:
        print(text, file=sys.stderr)
