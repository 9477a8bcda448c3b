"""kafka-leader-election: leaders that an operator asks for, preferred or unclean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from moldau.client.admin.elections import Election, elect_leaders
from moldau.client.admin.layout import Place
from moldau.client.admin.problem import KafkaProblem
from moldau.tools.kafka.lines.json_fields import parse_json, text_field, whole_field
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries.reaching import COMMAND_CONFIG, cluster
from moldau.tools.kafka.queries.refusals import error_text, exception_name

TYPES = {"preferred": 0, "unclean": 1}
TIMEOUT_SECONDS = 30.0

PARSER = Parser(
    "kafka-leader-election",
    "Elects leaders: the preferred replicas, or (unclean) any that is alive.",
    [
        Option("bootstrap-server", "host:port", "A broker. REQUIRED."),
        COMMAND_CONFIG,
        Option("admin.config", "config file", "The old name of --command-config."),
        Option("election-type", "[PREFERRED,UNCLEAN]: election type", "preferred or unclean. REQUIRED."),
        flag("all-topic-partitions", "All partitions for which an election makes sense."),
        Option("topic", "topic name", "The topic; needs --partition."),
        Option("partition", "partition id", "The partition of --topic.", kind=int),
        Option("path-to-json-file", "Path to JSON file", '{"partitions": [{"topic": "t", "partition": 1}]}'),
    ],
)


def main(words: Sequence[str]) -> int:
    """Elect, and print what came of it. Returns the exit code."""
    given = PARSER.parse(words)
    _validate(given)
    if given.flag("admin.config"):
        print(
            "Option --admin.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    kind = (given.text("election-type") or "").lower()
    if kind not in TYPES:
        raise CommandLineError(
            f"Cannot parse argument '{given.text('election-type')}' of option election-type",
            "--election-type takes preferred or unclean.",
        )
    places = _places(given)
    if places is not None and not places:
        return 0
    with cluster(given) as one:
        try:
            elections = elect_leaders(one, TYPES[kind], places, TIMEOUT_SECONDS)
        except KafkaProblem as problem:
            name = exception_name(problem.error_code)
            raise ToolError(f"Error while making request\n{name}: {error_text(problem.error_code)}") from None
    return _report(kind, elections)


def _validate(given: Given) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if not given.flag(name)]
    if missing:
        line = PARSER.line(
            [*given.typed, *(word for each in missing for word in (f"--{each}", each.upper()))]
        )
        raise CommandLineError(f"Missing required option(s): {', '.join(missing)}", line)
    ways = ("topic", "all-topic-partitions", "path-to-json-file")
    if sum(given.flag(each) for each in ways) != 1:
        raise CommandLineError(
            f"One and only one of the following options is required: {', '.join(ways)}",
            PARSER.line([*given.typed, "--all-topic-partitions"]),
        )
    if given.flag("topic") and not given.flag("partition"):
        raise CommandLineError(
            "Missing required option(s): partition", PARSER.line([*given.typed, "--partition", "0"])
        )
    if given.flag("partition") and not given.flag("topic"):
        raise CommandLineError("Option partition is only allowed if topic is used", "Add --topic TOPIC.")


def _places(given: Given) -> list[Place] | None:
    """The partitions that were named; None for all."""
    if given.flag("all-topic-partitions"):
        return None
    topic, index = given.text("topic"), given.number("partition")
    if topic is not None and index is not None:
        return [(topic, index)]
    path = given.text("path-to-json-file") or ""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"java.io.IOException: Unable to read file {path}") from None
    return parse_places(text)


def parse_places(text: str) -> list[Place]:
    """Read the JSON of partitions. ToolError."""
    try:
        given = parse_json(text)
    except ValueError:
        raise ToolError("Replica election data is empty") from None
    rows = given.get("partitions") if isinstance(given, Mapping) else None
    if not isinstance(rows, list):
        raise ToolError('Replica election data is missing "partitions" field')
    try:
        places = [(text_field(row, "topic"), whole_field(row, "partition")) for row in rows]
    except ValueError:
        raise ToolError('each of "partitions" must be like {"topic": "t", "partition": 0}') from None
    twice = sorted(place for place, count in Counter(places).items() if count > 1)
    if twice:
        names = ", ".join(f"{topic}-{index}" for topic, index in twice)
        raise ToolError(f"Replica election data contains duplicate partitions: [{names}]")
    return places


def _report(kind: str, elections: Sequence[Election]) -> int:
    elected, needless, failed = [], [], []
    for each in elections:
        place = f"{each.place[0]}-{each.place[1]}"
        if not each.error_code:
            elected.append(place)
        elif each.is_needless:
            needless.append(place)
        else:
            why = error_text(each.error_code, each.reason)
            failed.append(f"partition: {place}: {exception_name(each.error_code)}: {why}")
    if elected:
        names = ", ".join(sorted(elected))
        print(f"Successfully completed leader election ({kind.upper()}) for partitions {names}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(sorted(needless))}")
    for line in failed:
        print(f"Error completing leader election ({kind.upper()}) for {line}")
    if failed:
        raise ToolError(f"{len(failed)} replica(s) could not be elected")
    return 0
