"""Tables as Kafka's newer tools print them: columns as wide as their widest cell, each followed by a tab."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print the headings and the rows."""
    lines = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(headings))]
    for line in lines:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))
