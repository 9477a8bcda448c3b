"""What the demo shows: live bars on a terminal, plain lines elsewhere (in a pipe, in CI)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.cli.demo_group import Outcome
    from moldau.testing import Broker


class Screen:
    """Prints through rich, which drops colour and bars by itself where no terminal looks."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar while the block runs; the block calls what it gets with how many are done."""
        if not self._console.is_terminal:
            self.say(f"{name} ...")
            yield lambda done: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns: Sequence[Any] = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(name, total=total)
            yield lambda done: progress.update(task, completed=done)

    def rate(self, verb: str, count: int, size_bytes: int, seconds: float) -> None:
        """Say how fast it went."""
        self.say(
            f"{verb} {count:,} records ({size_bytes / 1e6:.1f} MB) in {seconds:.2f} s: "
            f"{count / seconds:,.0f} records/s, {size_bytes / 1e6 / seconds:.1f} MB/s"
        )

    def members(self, outcome: Outcome) -> None:
        """Show which member had which partitions, and how much came there."""
        for member in outcome.members:
            partitions = ", ".join(map(str, member.partitions))
            self.say(f"  {member.name}: partitions {partitions}; {member.count:,} records")

    def verdict(self, failures: list[str], otherwise: str) -> None:
        """Say whether everything held."""
        if failures:
            for failure in failures:
                self._console.print(f"FAULT: {failure}", style="bold red", markup=False, soft_wrap=True)
        else:
            self._console.print(f"OK: {otherwise}", style="bold green", markup=False, soft_wrap=True)

    def finish(self, broker: Broker, *, kept: bool, topic: str, group: str) -> None:
        """Say what to try next."""
        sys.stdout.flush()
        if not kept:
            self.say("the broker was stopped and its data removed; KEEP=1 make demo leaves it running")
            self.say(
                f"try next: {_program()} serve --data ./moldau-data   (any Kafka client at 127.0.0.1:9092)"
            )
            return
        at = broker.bootstrap_servers
        self.say(
            f"the broker goes on at {at}; health: http://{broker.http_address}/health; data: {broker.data}"
        )
        self.say("try next:")
        for command in (
            f"{_program()} consume {topic} -b {at} -n 3 -f '%k %v{{json}}\\n'",
            f"{_program()} groups describe {group} -b {at}",
            f"{_program()} topics describe {topic} -b {at}",
            f"kcat -b {at} -L",
        ):
            self.say(f"  {command}")
        self.say(f"stop it with: kill {broker.pid}")


def _program() -> str:
    """How this shell reaches the program: by its name, or by its path in an environment not activated."""
    return "moldau" if shutil.which("moldau") else sys.argv[0]
