"""`python -m moldau.cli.kafka kafka-topics.sh --list`: what the scripts of `moldau kafka-home` call."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from moldau.cli.kafka.running import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool that the first word names with the words after it; return its exit code."""
    name, *words = (sys.argv[1:] if arguments is None else arguments) or ["?"]
    return run(name, words)


if __name__ == "__main__":
    sys.exit(main())
