"""The demo's output: plain lines, the flows' live table (streams/screen.py), and tables at the end."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.tools.demo.topics import CARRIERS, DEPARTURES, HOURS, WEATHER

if TYPE_CHECKING:
    from moldau.testing import Broker

Row = Mapping[str, Any]
WORST_HOURS = 10
FLIGHTS_LEAST = 10
"""An hour with fewer flights is no bad hour, but a bad flight."""


class Screen:
    """Prints through rich, which leaves out colour and bars where standard output is no terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, soft_wrap=True)

    def worst_hours(self, hours: Sequence[Row]) -> None:
        """Show the hours with the longest mean delays, and their weather."""
        from rich import box
        from rich.table import Table

        table = Table(
            box=box.SIMPLE_HEAD,
            title=f"the worst hours with at least {FLIGHTS_LEAST} flights",
            title_justify="left",
            title_style="bold",
            header_style="bold",
        )
        for index, heading in enumerate(WORST_COLUMNS):
            table.add_column(heading, justify="left" if index < 2 else "right", no_wrap=True)
        for row in worst(hours):
            table.add_row(*worst_row(row))
        self._console.print(table)

    def verdict(self, faults: Sequence[str], otherwise: str) -> None:
        """Print whether all checks passed."""
        for fault in faults:
            self._console.print(f"FAULT: {fault}", style="bold red", markup=False, soft_wrap=True)
        if not faults:
            self._console.print(f"OK: {otherwise}", style="bold green", markup=False, soft_wrap=True)

    def finish(
        self,
        at: str,
        broker: Broker | None,
        registry: str | None,
        app_file: Path,
        folder: Path,
        *,
        kept: bool,
    ) -> None:
        """Print what to try next; `at` names a broker that was not started by the demo, where its topics
        stay; `registry` is the schema registry, unless it ended with the demo.
        """
        sys.stdout.flush()
        program = _program()
        if not kept and broker is None:
            return
        if not kept:
            self.say("the broker was stopped and its data removed; KEEP=1 make demo leaves it running")
            self.say(f"the app is {shown(app_file)}; {program} streams run FILE runs one of yours")
            return
        if broker is not None:
            health = f"http://{broker.http_address}/health"
            self.say(f"the broker goes on at {at}; health: {health}; data: {broker.data}")
        self.say("try next:")
        start_registry = () if registry else (f"{program} registry -b {at} &",)
        registry = registry or "http://127.0.0.1:8081"
        for command in (
            *start_registry,
            f"{program} consume delays-by-carrier -b {at} -e -f '%k %v{{json}}\\n'",
            f"{program} streams describe delays -b {at} --checkpoints {folder}",
            f"{program} schemas show departures-value --schema-registry {registry}",
            f"{program} streams run {shown(app_file)} -b {at} --schema-registry {registry} "
            f"--checkpoints {folder}",
            f"{program} topics list -b {at}",
        ):
            self.say(f"  {command}")
        if broker is not None:
            self.say(f"stop it with: kill {broker.pid}")
        else:
            topics = " ".join((DEPARTURES, WEATHER, HOURS, CARRIERS))
            self.say(f"remove its topics with: {program} topics delete {topics} -b {at}")


WORST_COLUMNS = ("airport", "hour (UTC)", "flights", "delay", "°F", "wind", "rain", "sight")


def worst(hours: Sequence[Row]) -> list[Row]:
    """The hours with the longest mean delays, the worst first."""
    many = [row for row in hours if row["flights"] >= FLIGHTS_LEAST and row["delay"] is not None]
    return sorted(many, key=lambda row: (-row["delay"], row["time_hour"]))[:WORST_HOURS]


def worst_row(row: Row) -> list[str]:
    """An hour as table cells."""
    weather = [
        "-" if row.get(name) is None else f"{row[name]:.{digits}f}"
        for name, digits in (("temp", 0), ("wind_speed", 0), ("precip", 2), ("visib", 1))
    ]
    return [
        row["origin"],
        row["time_hour"][:16].replace("T", " "),
        str(row["flights"]),
        f"{row['delay']:.0f} min",
        *weather,
    ]


def shown(path: Path) -> str:
    """A path relative to the working directory, if it lies there."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _program() -> str:
    """How this shell calls the program: its name, or its path if the environment is not activated."""
    return "moldau" if shutil.which("moldau") else sys.argv[0]
