"""`python -m moldau.tools.kafka kafka-topics.sh --list`: what the scripts of `moldau kafka-home` call.

What takes time is imported within `main`, where Ctrl-C is caught.
"""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # typing takes some milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool that the first word names with the words after it; return its exit code."""
    try:
        # A consumer that is told to end commits and leaves its group first, as Kafka's does.
        signal.signal(signal.SIGTERM, _ended)
        from moldau.tools.kafka.lines.streams import prepare_streams
        from moldau.tools.kafka.running import run

        prepare_streams()
        name, *words = (sys.argv[1:] if arguments is None else arguments) or ["?"]
        return run(name, words)
    except KeyboardInterrupt:
        return 130


def _ended(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
