"""The JSON of kafka-reassign-partitions: read with Kafka's checks, and written as Kafka writes it. Pure.

{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/b"]}]}
{"version":1,"topics":[{"topic":"t"}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.tools.kafka.lines.json_fields import list_field, parse_json, text_field, whole, whole_field
from moldau.tools.kafka.problems import ToolError

Place = tuple[str, int]
ANY = "any"


class Plan(NamedTuple):
    """Replicas by partition, and directories of replicas (partition, broker)."""

    targets: dict[Place, list[int]]
    directories: dict[tuple[Place, int], str]


def named(place: Place) -> str:
    """A partition as Kafka writes it."""
    return f"{place[0]}-{place[1]}"


def parse_plan(text: str) -> Plan:
    """Read a plan. ToolError, in Kafka's words where it has some."""
    plan = Plan({}, {})
    twice: list[Place] = []
    for row in _rows(text, "partitions"):
        try:
            place = (text_field(row, "topic"), whole_field(row, "partition"))
            replicas = [whole(each, "replicas") for each in list_field(row, "replicas")]
            paths = list_field(row, "log_dirs") if row.get("log_dirs") is not None else []
            if not all(isinstance(each, str) for each in paths):
                raise ValueError("log_dirs")
        except ValueError:
            raise _error(
                f'a partition reads {{"topic": "t", "partition": 0, "replicas": [1]}}, not {row}'
            ) from None
        if paths and len(paths) != len(replicas):
            raise _error(
                f"Size of replicas list {replicas} is different from size of log dirs list "
                f"{paths} for partition "
                f"{named(place)}"
            )
        if place in plan.targets:
            twice.append(place)
        plan.targets[place] = replicas
        for broker, path in zip(replicas, paths, strict=False):
            if path != ANY:
                plan.directories[place, broker] = path
    if twice:
        names = ",".join(named(each) for each in dict.fromkeys(twice))
        raise _error(f"Partition reassignment contains duplicate topic partitions: {names}")
    return plan


def check_to_execute(plan: Plan) -> None:
    """Raise ToolError for a plan that can be verified, but not carried out."""
    if not plan.targets:
        raise _error("Partition reassignment list cannot be empty")
    if any(not replicas for replicas in plan.targets.values()):
        raise _error("Partition replica list cannot be empty")
    doubled = [
        f"{named(place)} contains multiple entries for {','.join(str(each) for each in _twice(replicas))}"
        for place, replicas in plan.targets.items()
        if _twice(replicas)
    ]
    if doubled:
        raise _error(f"Partition replica lists may not contain duplicate entries: {'. '.join(doubled)}")


def parse_topics(text: str) -> list[str]:
    """Read the topics of --topics-to-move-json-file. ToolError."""
    try:
        names = [text_field(row, "topic") for row in _rows(text, "topics")]
    except ValueError:
        raise _error('each of "topics" must be like {"topic": "t"}') from None
    if _twice(names):
        raise _error(f"List of topics to reassign contains duplicate entries: {_listed(_twice(names))}")
    return names


def parse_brokers(text: str) -> list[int]:
    """Read 1,2,3. ToolError."""
    try:
        brokers = [int(each) for each in text.split(",")]
    except ValueError:
        raise _error(f"--broker-list {text} is not understood: write 1,2,3") from None
    if _twice(brokers):
        raise _error(f"Broker list contains duplicate entries: {_listed(_twice(brokers))}")
    return brokers


def plan_json(
    targets: Mapping[Place, Sequence[int]], directories: Mapping[tuple[Place, int], str] | None = None
) -> str:
    """A plan as one line of JSON."""
    known = directories or {}
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "replicas": list(replicas),
            "log_dirs": [known.get((place, broker), ANY) for broker in replicas],
        }
        for place, replicas in sorted(targets.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"), ensure_ascii=False)


def _rows(text: str, name: str) -> Sequence[Any]:
    try:
        given = parse_json(text)
    except ValueError as problem:
        raise _error(f"The input string is not a valid JSON: {problem}") from None
    if not isinstance(given, Mapping):
        raise _error("The input string is not a valid JSON")
    version = given.get("version", 1)
    if version != 1:
        raise _error(f"Not supported version field value {version}")
    rows = given.get(name, [])
    if not isinstance(rows, list):
        raise _error(f'"{name}" must be a list')
    return rows


def _twice(items: Sequence[Any]) -> list[Any]:
    return [each for each in dict.fromkeys(items) if items.count(each) > 1]


def _listed(items: Sequence[Any]) -> str:
    return ",".join(str(each) for each in items)


def _error(text: str) -> ToolError:
    return ToolError(f"Error: {text}", on_stdout=True)
