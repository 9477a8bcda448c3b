"""The output of `moldau streams run`: a live table on a terminal; in a pipe a line (or a JSON document) for a
flow that made progress, at most one every few seconds.

    flow          state    batch  rows in  rows out  lag  batch ms  rows/s
    late_flights  running     12  336,776     9,712    0       143  41,250
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from moldau.streams.runner import Runner
    from moldau.streams.running import RunningFlow

COLUMNS = ("flow", "state", "batch", "rows in", "rows out", "lag", "batch ms", "rows/s")
LEFT_OUT_FIRST = ("batch ms", "batch", "rows/s", "rows out", "rows in")
NAME_WIDTH_LEAST = 16
GAP = 3
PLAIN_SECONDS = 5.0
JSON_SECONDS = 1.0


class StreamsScreen:
    """A context manager; `show` is called several times a second."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._live: Any = None
        self._shown: dict[str, tuple[float, tuple[object, ...]]] = {}
        """Of each flow, when something was said of it last, and what."""
        self._interval = JSON_SECONDS if as_json else PLAIN_SECONDS

    def __enter__(self) -> Self:
        if not self._as_json and sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(refresh_per_second=4, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a message above the table."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def show(self, runner: Runner) -> None:
        """Update the table."""
        if self._live is not None:
            self._live.update(table_of(runner, self._live.console.width))
            return
        now = time.monotonic()
        for each in runner.flows:
            row = row_of(each)
            shown_at, shown = self._shown.get(each.flow.name, (0.0, ()))
            if row == shown or (row[1:2] == shown[1:2] and now - shown_at < self._interval):
                continue
            self._shown[each.flow.name] = now, row
            print(json.dumps(document_of(each)) if self._as_json else line_of(row), flush=True)


def row_of(running: RunningFlow) -> tuple[object, ...]:
    """A flow's numbers by column."""
    numbers = running.numbers
    return (
        running.flow.name,
        running.state,
        numbers.batch_id,
        numbers.rows_in,
        numbers.rows_out,
        numbers.lag,
        numbers.batch_ms,
        round(numbers.rows_per_second),
    )


def line_of(row: tuple[object, ...]) -> str:
    """A flow's numbers as a log line."""
    name, state, batch, rows_in, rows_out, lag, batch_ms, rate = row
    if batch is None:
        return f"{name} {state}"
    return (
        f"{name} {state}: batch {batch} in {batch_ms} ms, {rows_in} rows in ({rate}/s), {rows_out} rows out, "
        f"lag {'unknown' if lag is None else lag}"
    )


def document_of(running: RunningFlow) -> dict[str, object]:
    """A flow's numbers as JSON."""
    numbers = running.numbers
    return {
        "flow": running.flow.name,
        "state": running.state,
        "batch": numbers.batch_id,
        "batches": numbers.batches,
        "rows_in": numbers.rows_in,
        "rows_out": numbers.rows_out,
        "lag": numbers.lag,
        "batch_ms": numbers.batch_ms,
        "rows_per_second": round(numbers.rows_per_second, 1),
        "watermark": numbers.watermark,
        "rows_dropped_late": numbers.rows_dropped_late,
        "state_rows": numbers.state_rows,
        "reason": running.reason,
    }


def table_of(runner: Runner, width: int) -> Any:
    """The flows as a table of at most `width` characters.

    Numbers are never cut: a narrow terminal gets fewer columns, then shorter names.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [_cells(row_of(each)) for each in runner.flows]
    shown = _columns_that_fit([COLUMNS, *rows], width)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold cyan", show_edge=False, pad_edge=False)
    for index in shown:
        table.add_column(COLUMNS[index], justify="left" if index < 2 else "right", no_wrap=True)
    colours = {"running": "green", "done": "green", "restarting": "yellow", "failed": "red", "fenced": "red"}
    longest = width - sum(_width(COLUMNS, *rows, at=index) + GAP for index in shown[1:])
    for name, state, *numbers in rows:
        if len(name) > longest:
            name = name[: max(longest - 1, 1)] + "…"
        cells: list[Any] = [Text(name), Text(state, style=colours.get(state, "")), *numbers]
        table.add_row(*(cells[index] for index in shown))
    return table


def _cells(row: tuple[object, ...]) -> tuple[str, ...]:
    name, state, *numbers = row
    return (str(name), str(state), *("-" if number is None else f"{number:,}" for number in numbers))


def _columns_that_fit(rows: Sequence[tuple[str, ...]], width: int) -> list[int]:
    shown = list(range(len(COLUMNS)))
    for name in LEFT_OUT_FIRST:
        name_width = min(_width(*rows, at=0), NAME_WIDTH_LEAST)
        if name_width + sum(_width(*rows, at=index) + GAP for index in shown[1:]) <= width:
            break
        shown.remove(COLUMNS.index(name))
    return shown


def _width(*rows: tuple[str, ...], at: int) -> int:
    return max(len(row[at]) for row in rows)
