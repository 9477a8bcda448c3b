"""`python -m moldau.cli.kafka kafka-topics.sh --list`: what the scripts of `moldau kafka-home` call."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool that the first word names with the words after it; return its exit code."""
    # A consumer that is told to end commits and leaves its group first, as Kafka's does.
    signal.signal(signal.SIGTERM, _ended)
    try:
        prepare_streams()
        from moldau.cli.kafka.running import run

        name, *words = (sys.argv[1:] if arguments is None else arguments) or ["?"]
        return run(name, words)
    except KeyboardInterrupt:
        return 130


def prepare_streams() -> None:
    """Make standard streams that any text goes through, and that are there.

    A name that the terminal's encoding lacks is printed with backslashes. A stream that was closed (`>&-`)
    becomes the null device: the next file or socket that is opened would get its number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        stream = getattr(sys, name)
        if stream is None:
            stream = os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if name == "stdin" else "backslashreplace")


def _ended(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
