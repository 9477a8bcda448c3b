"""`python -m moldau.cli.kafka kafka-topics.sh --list`: what the scripts of `moldau kafka-home` call."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from moldau.cli.kafka.running import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool that the first word names with the words after it; return its exit code."""
    # A consumer that is told to end commits and leaves its group first, as Kafka's does.
    signal.signal(signal.SIGTERM, _ended)
    name, *words = (sys.argv[1:] if arguments is None else arguments) or ["?"]
    return run(name, words)


def _ended(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
