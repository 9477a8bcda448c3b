"""kafka-server-stop [--node-id ID]: ends the brokers that kafka-server-start has started, of this user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moldau.tools.kafka.homes.processes import Process, started_with, stop
from moldau.tools.kafka.lines.options import Option, Parser
from moldau.tools.kafka.lines.script_words import script_words
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.programs.server_start import TOOL, USAGE

PARSER = Parser(
    "kafka-server-stop",
    "Ends brokers that kafka-server-start has started.",
    [
        Option("node-id", "ID", "Only the broker with this number (node.id or broker.id).", kind=int),
        Option("process-role", "role", "Kafka's option; a Moldau broker has both roles."),
    ],
)


def main(words: Sequence[str]) -> int:
    """Ask brokers to end and wait for it. Returns the exit code."""
    given = PARSER.parse(words, needs_words=False)
    wanted = given.number("node-id")
    role = given.text("process-role")
    if role not in (None, "broker", "controller"):
        raise CommandLineError(
            f"'{role}' is not a process role", "--process-role takes broker or controller."
        )
    found = [
        each for each, rest in started_with(TOOL) if wanted is None or node_id(each, rest) == str(wanted)
    ]
    if not found:
        raise ToolError("No kafka server to stop", on_stdout=True)
    stop(found)
    return 0


def node_id(process: Process, words: Sequence[str]) -> str:
    """The number that a broker's settings name; "" if they name none or are gone."""
    from moldau.common.core.properties import parse_properties

    try:
        (file,), overrides, _ = script_words(words, USAGE)
        folder = Path(f"/proc/{process.pid}/cwd")
        texts = parse_properties(
            (folder / file if folder.exists() else Path(file)).read_text(encoding="utf-8")
        )
    except (OSError, ValueError, CommandLineError):
        return ""
    for each in overrides:
        name, _, value = each.partition("=")
        texts[name] = value
    return texts.get("node.id", texts.get("broker.id", ""))
