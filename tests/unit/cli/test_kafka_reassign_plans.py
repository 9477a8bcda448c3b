"""The JSON of kafka-reassign-partitions: what is read, refused and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.tools.kafka.formats.reassign_plans import (
    check_to_execute,
    parse_brokers,
    parse_plan,
    parse_topics,
    plan_json,
)
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.programs.reassign_partitions import main


def text(*rows: dict[str, object], **more: object) -> str:
    return json.dumps({"version": 1, "partitions": rows} | more)


ROW = {"topic": "a", "partition": 0, "replicas": [1, 2]}


def test_a_plan_is_written_as_it_was_read() -> None:
    row = ROW | {"log_dirs": ["any", "/b"]}
    plan = parse_plan(text(row))
    assert plan.targets == {("a", 0): [1, 2]}
    assert plan.directories == {(("a", 0), 2): "/b"}
    assert json.loads(plan_json(plan.targets, plan.directories)) == {"version": 1, "partitions": [row]}
    assert parse_plan(json.dumps({"partitions": [ROW]})).targets == plan.targets


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("{", "The input string is not a valid JSON"),
        ("[]", "The input string is not a valid JSON"),
        (text(ROW, version=2), "Not supported version field value 2"),
        (text(ROW, ROW), "duplicate topic partitions: a-0"),
        (text(ROW | {"log_dirs": ["any"]}), "different from size of log dirs list"),
        (text({"topic": "a"}), "a partition reads"),
        (json.dumps({"partitions": {}}), "must be a list"),
    ],
)
def test_plans_that_cannot_be_read(plan: str, why: str) -> None:
    with pytest.raises(ToolError, match=why) as problem:
        parse_plan(plan)
    assert problem.value.on_stdout


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "list cannot be empty"),
        ([ROW | {"replicas": []}], "replica list cannot be empty"),
        ([ROW | {"replicas": [1, 2, 1]}], "duplicate entries: a-0 contains multiple entries for 1"),
    ],
)
def test_plans_that_cannot_be_carried_out(rows: list[dict[str, object]], why: str) -> None:
    with pytest.raises(ToolError, match=why):
        check_to_execute(parse_plan(text(*rows)))


def test_topics_and_brokers_to_move_to() -> None:
    assert parse_topics('{"version": 1, "topics": [{"topic": "a"}, {"topic": "b"}]}') == ["a", "b"]
    assert parse_brokers("1,2") == [1, 2]
    with pytest.raises(ToolError, match="duplicate entries: a"):
        parse_topics('{"topics": [{"topic": "a"}, {"topic": "a"}]}')
    with pytest.raises(ToolError, match="duplicate entries: 2"):
        parse_brokers("2,2")
    with pytest.raises(ToolError, match="write 1,2,3"):
        parse_brokers("a")


def test_a_number_that_is_none_is_told_before_anything_is_moved(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    line = f"--bootstrap-server localhost:1 --execute --reassignment-json-file {plan} --timeout x"
    with pytest.raises(ToolError, match="Cannot parse argument 'x' of option timeout"):
        main(line.split())
