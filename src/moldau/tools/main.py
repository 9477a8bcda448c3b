"""`moldau COMMAND`: chooses the command's module and runs it.

The problem: a broker must acknowledge its first record a quarter of a second after `moldau serve` was
typed, and importing the libraries that make the other commands pleasant (typer, rich, confluent-kafka)
would alone cost that.

The idea: this module imports nothing. `serve` is handed its arguments directly; any other command goes
through app.py, which builds a typer application that contains only the command that was named.

The invariant: nothing that `moldau serve` imports may import typer, rich or confluent_kafka (a test looks).
docs/decisions/commands-start-fast.md has the measurements.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 called wrongly, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    asks_for_help = "--help" in words or "-h" in words
    if words[:1] == ["serve"] and not asks_for_help and "_MOLDAU_COMPLETE" not in os.environ:
        from moldau.tools.commands.serve.command import serve

        return serve(words[1:])
    from moldau.tools.app import run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
