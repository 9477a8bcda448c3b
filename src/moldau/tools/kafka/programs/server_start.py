"""kafka-server-start [-daemon] server.properties [--override property=value]*: a Moldau broker.

The same as `moldau serve --config FILE --set NAME=VALUE`. Settings of Kafka that Moldau does not have are
warned of in its log, and ignored. With -daemon it returns once the broker serves clients.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from moldau.tools.kafka.lines.script_words import script_words
from moldau.tools.kafka.problems import FAILED, CommandLineError

TOOL = "kafka-server-start"
USAGE = "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*"
READY = "moldau is ready"


def main(words: Sequence[str]) -> int:
    """Run a broker until SIGTERM or SIGINT, or start one in the background. Returns the exit code."""
    if words and words[0] == "--version":
        from moldau.tools.kafka.lines.options import KAFKA_VERSION

        print(KAFKA_VERSION)
        return 0
    (file,), overrides, background = script_words(words, USAGE)
    if not Path(file).is_file():
        raise CommandLineError(f"{file} is not there: name the broker's settings", USAGE)
    if background:
        from moldau.tools.kafka.homes.processes import in_background, log_folder

        output = log_folder(file) / "kafkaServer.out"
        rest = [file, *(word for each in overrides for word in ("--override", each))]
        in_background(TOOL, rest, output, lambda said: READY in said)
        return 0
    from moldau.tools.commands.serve.command import serve

    code = serve(["--config", file, *(word for each in overrides for word in ("--set", each))])
    if code and (connect := _zookeeper(file, overrides)) and not _answers(connect):
        print(
            f"No ZooKeeper answers at {connect}. Start it first:\n"
            "    zookeeper-server-start.sh config/zookeeper.properties\n"
            f"or run alone: remove zookeeper.connect from {file}, or take config/kraft/server.properties",
            file=sys.stderr,
        )
    return FAILED if code else 0


def _zookeeper(file: str, overrides: Sequence[str]) -> str:
    """zookeeper.connect of a broker that did not start; "" without one."""
    from moldau.common.core.properties import parse_properties
    from moldau.common.settings.sources import from_overrides

    try:
        texts = parse_properties(Path(file).read_text(encoding="utf-8"))
        return (texts | from_overrides(overrides)).get("zookeeper.connect", "")
    except (OSError, ValueError):
        return ""


def _answers(connect: str) -> bool:
    for each in connect.partition("/")[0].split(","):
        host, _, port = each.strip().rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=2).close()
            return True
        except (OSError, ValueError):
            continue
    return False
