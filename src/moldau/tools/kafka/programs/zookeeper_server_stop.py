"""zookeeper-server-stop: ends the ZooKeeper servers that zookeeper-server-start has started, of this user."""

from __future__ import annotations

import os
from collections.abc import Sequence

from moldau.tools.kafka.homes.processes import own_processes, stop
from moldau.tools.kafka.lines.options import Option, Parser
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.programs.zookeeper_server_start import MARK

PARSER = Parser(
    "zookeeper-server-stop",
    "Ends ZooKeeper servers that zookeeper-server-start has started.",
    [Option("config", "file", "Only the server with this settings' file.")],
)


def main(words: Sequence[str]) -> int:
    """Ask servers to end and wait for it. Returns the exit code."""
    given = PARSER.parse(words, needs_words=False)
    file = given.text("config")
    wanted = None if file is None else os.path.abspath(file)
    found = [each for each in own_processes() if MARK in each.words and wanted in (None, each.words[-1])]
    if not found:
        raise ToolError("No zookeeper server to stop", on_stdout=True)
    stop(found)
    return 0
