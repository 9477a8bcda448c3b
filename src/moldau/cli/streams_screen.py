"""What `moldau streams run` shows: a live table on a terminal, a line a flow and some seconds in a pipe, or
JSON.

FLOW            STATE    BATCH  ROWS-IN  ROWS-OUT  LAG  BATCH-MS  ROWS/S late_flights    running     12
336776      9712    0       143   41250
"""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from moldau.streams.runner import Runner
    from moldau.streams.running import RunningFlow

COLUMNS = ("flow", "state", "batch", "rows in", "rows out", "lag", "batch ms", "rows/s")
PLAIN_SECONDS = 5.0
JSON_SECONDS = 1.0


class StreamsScreen:
    """A context manager; `show` is called several times a second."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._live: Any = None
        self._shown_at = 0.0
        self._shown: list[tuple[object, ...]] = []
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
        """Say a sentence, beside the table or above it."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def show(self, runner: Runner) -> None:
        """Show where the flows are."""
        if self._live is not None:
            self._live.update(_table(runner))
            return
        rows = [row_of(each) for each in runner.flows]
        states_changed = [row[1] for row in rows] != [row[1] for row in self._shown]
        now = time.monotonic()
        if rows == self._shown or (not states_changed and now - self._shown_at < self._interval):
            return
        self._shown, self._shown_at = rows, now
        for each, row in zip(runner.flows, rows, strict=True):
            print(json.dumps(document_of(each)) if self._as_json else line_of(row), flush=True)


def row_of(running: RunningFlow) -> tuple[object, ...]:
    """A flow's numbers, as COLUMNS names them."""
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
    """A flow's numbers in a line for a log."""
    name, state, batch, rows_in, rows_out, lag, batch_ms, rate = row
    if batch is None:
        return f"{name} {state}"
    return (
        f"{name} {state}: batch {batch} in {batch_ms} ms, {rows_in} rows in ({rate}/s), {rows_out} rows out, "
        f"lag {'unknown' if lag is None else lag}"
    )


def document_of(running: RunningFlow) -> dict[str, object]:
    """A flow's numbers for a program."""
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


def _table(runner: Runner) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold cyan")
    for index, heading in enumerate(COLUMNS):
        table.add_column(heading, justify="left" if index < 2 else "right")
    colours = {"running": "green", "done": "green", "restarting": "yellow", "failed": "red", "fenced": "red"}
    for each in runner.flows:
        name, state, *numbers = row_of(each)
        cells = ["-" if number is None else f"{number:,}" for number in numbers]
        table.add_row(str(name), Text(str(state), style=colours.get(str(state), "")), *cells)
    return table
