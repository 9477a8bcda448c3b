"""Restarts, retries, secrets, how partitions are dealt out, transforms in a chain, topics to create."""

from __future__ import annotations

import contextlib
import json

import pytest

from moldau.common.core.clock import ManualClock
from moldau.connect import BadRecord, Batch, ConnectError, Retriable, Setting, SettingType, batch_of, rows
from moldau.connect.transform import Predicate
from moldau.connect.transforms import chain
from moldau.connect.transforms.own import FunctionTransform
from moldau.services.connect.runtime.connector_instance import dealt
from moldau.services.connect.runtime.hiding import Hiding
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.problems import (
    ErrorPolicy,
    Failed,
    Problem,
    Stage,
    sentence_and_details,
)
from moldau.services.connect.runtime.restarts import Restarts
from moldau.services.connect.runtime.rows import ERROR_ROWS, RESTART_ROWS, settings_of
from moldau.services.connect.runtime.steps import Steps
from moldau.services.connect.runtime.topics import topic_creation


def test_restarts_wait_longer_each_time_and_begin_anew_after_a_good_run():
    restarts = Restarts(settings_of(RESTART_ROWS, {}, "c"))
    assert [restarts.failed(10) for _ in range(11)] == [1000 * 2**n for n in range(9)] + [300_000] * 2
    assert restarts.failed(300_000) == 1000
    assert Restarts(settings_of(RESTART_ROWS, {"moldau.restart.enable": "false"}, "c")).failed(1) is None


def policy(clock: ManualClock, **more: str) -> ErrorPolicy:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return ErrorPolicy(settings_of(ERROR_ROWS, given, "c"), clock, TaskMetrics(clock), "c-0")


def attempts(clock: ManualClock, one: ErrorPolicy, failures: int, *, endless: bool) -> tuple[int, list[int]]:
    """How often an operation was tried that fails so often, and the pauses in ms."""
    tried, pauses = [0], []

    def operation() -> None:
        tried[0] += 1
        if tried[0] <= failures:
            raise Retriable("away")

    def wait(seconds: float) -> bool:
        pauses.append(round(seconds * 1000))
        clock.advance(round(seconds * 1000))
        return False

    with contextlib.suppress(Retriable):
        one.repeated(operation, wait, endless=endless)
    return tried[0], pauses


def test_what_is_retriable_is_repeated_as_long_as_the_settings_say():
    clock = ManualClock()
    assert attempts(clock, policy(clock), 99, endless=False) == (1, [])
    assert attempts(clock, policy(clock, errors_retry_delay_max_ms="1000"), 5, endless=True) == (
        6,
        [300, 600, 1000, 1000, 1000],
    )
    limited = policy(clock, errors_retry_timeout="1000")
    assert attempts(clock, limited, 99, endless=True) == (4, [300, 600, 100])
    assert attempts(clock, policy(clock, errors_retry_timeout="-1"), 9, endless=False)[0] == 10


def test_a_record_fails_the_task_or_is_left_out_and_counted():
    clock = ManualClock()
    problem = Problem(0, Stage.VALUE_CONVERTER, "json", BadRecord("no JSON"))
    with pytest.raises(Failed, match=r"t-0 at 5: VALUE_CONVERTER \(json\) failed: no JSON"):
        policy(clock).meet(problem, lambda: "t-0 at 5")
    metrics = TaskMetrics(clock)
    given = settings_of(ERROR_ROWS, {"errors.tolerance": "ALL"}, "c")
    ErrorPolicy(given, clock, metrics, "c-0").meet(problem, lambda: "t-0 at 5")
    assert metrics.values(True)["task-error-metrics"]["total-records-skipped"] == 1


def test_a_status_has_a_sentence_and_details_only_of_bugs():
    with pytest.raises(ConnectError) as cause:
        raise ConnectError("the table is gone") from OSError("no such file")
    assert sentence_and_details(cause.value) == "the table is gone\nCaused by: OSError: no such file"
    with pytest.raises(KeyError) as bug:
        raise KeyError("x")
    assert sentence_and_details(bug.value).startswith("KeyError: 'x'\nTraceback")


def test_secrets_are_hidden_wherever_they_appear():
    hiding = Hiding({"connection.password": "pa55", "url": "db", "my.token": "pa55word", "retries": "3"})
    assert hiding.text("login at db with pa55word, then pa55") == "login at db with [hidden], then [hidden]"


def test_secrets_within_a_value_are_hidden_too():
    """A tap that repeats its configuration in its last words, a driver that repeats its address."""
    rows = [Setting("singer.config", SettingType.PASSWORD, "")]
    tap = {"repository": "apache/kafka", "access_token": "tok3n", "auth": {"credentials": {"user": "u53r"}}}
    config = {"singer.config": json.dumps(tap), "url": "postgresql://me:p%4055@db/x"}
    hidden = Hiding(config, rows).text("apache/kafka: tok3n of u53r; me:p%4055@db, and p@55")
    assert hidden == "apache/kafka: [hidden] of [hidden]; me:[hidden]@db, and [hidden]"


def test_secrets_are_not_logged_by_retries_and_records_that_are_left_out(caplog):
    clock = ManualClock()
    given = settings_of(ERROR_ROWS, {"errors.tolerance": "all", "errors.log.enable": "true"}, "c")
    hidden = Hiding({"connection.password": "pa55"}).text
    one = ErrorPolicy(given, clock, TaskMetrics(clock), "c-0", hidden)
    one.pauses(endless=True).next_seconds(Retriable("no login with pa55"))
    one.meet(Problem(0, Stage.TASK_PUT, "x", BadRecord("refused with pa55")), lambda: "t-0 at 5")
    assert caplog.text.count("[hidden]") == 2
    assert "pa55" not in caplog.text


def test_partitions_stay_with_their_task_and_are_dealt_evenly():
    found = {str(n): {"n": n} for n in range(5)}
    first = dealt(found, [], 2)
    assert sorted(map(len, first)) == [2, 3]
    more = {str(n): {"n": n} for n in range(6)}
    second = dealt(more, first, 2)
    assert all(set(map(str, before)) <= set(map(str, now)) for before, now in zip(first, second, strict=True))
    assert dealt(found, second, 9) != second
    assert [len(each) for each in dealt(found, [], 9)] == [1] * 5
    assert dealt({}, first, 2) == []


class Long(Predicate):
    def test(self, batch: Batch) -> list[bool]:
        return [len(row.value) > 1 for row in rows(batch)]


def upper(batch: Batch) -> Batch:
    """A function of one's own, that fails over one value."""
    values = [row.value for row in rows(batch)]
    if "boom" in values:
        raise ZeroDivisionError("boom")
    return batch_of(batch.topic, [each.upper() for each in values])


def no_vowels(batch: Batch) -> list[Batch]:
    for row, each in enumerate(rows(batch)):
        if each.value == "E":
            raise BadRecord("a vowel", row)
    return [batch]


def stage(function, predicate=None, negate=False):
    return chain.Stage("x", FunctionTransform(function), "x", predicate, negate)


def test_a_chain_keeps_order_and_finds_the_rows_that_fail():
    stages = [stage(upper, Long()), stage(no_vowels)]
    steps = Steps(chain.Chain(stages))
    made, problems = steps.apply(batch_of("t", ["a", "bb", "boom", "E", "cc", "d"]))
    assert [row.value for batch in made for row in rows(batch)] == ["a", "BB", "CC", "d"]
    assert [row for batch in made for row in batch.rows.to_pylist()] == [0, 1, 4, 5]
    assert [(each.row, str(each.error)) for each in problems] == [(2, "boom"), (3, "a vowel")]


def test_a_negated_predicate_and_records_that_are_left_out():
    steps = Steps(chain.Chain([stage(lambda batch: [], Long(), negate=True)]))
    made, problems = steps.apply(batch_of("t", ["a", "bb", "c"]))
    assert [row.value for batch in made for row in rows(batch)] == ["bb"]
    assert not problems


def test_groups_of_topics_to_create():
    config = {
        "topic.creation.groups": "logs",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.logs.include": "log-.*",
        "topic.creation.logs.exclude": "log-x",
        "topic.creation.logs.partitions": "7",
        "topic.creation.logs.cleanup.policy": "compact",
    }
    creation = topic_creation(config, True)
    chosen = {
        name: next(each for each in creation._groups if each.has(name))
        for name in ("log-a", "log-x", "other")
    }
    assert {name: (each.name, each.partitions) for name, each in chosen.items()} == {
        "log-a": ("logs", 7),
        "log-x": ("default", 2),
        "other": ("default", 2),
    }
    assert chosen["log-a"].config == {"cleanup.policy": "compact"}
    assert not topic_creation(config, False)
    del config["topic.creation.default.partitions"]
    with pytest.raises(ConnectError, match=r"topic\.creation\.default\.partitions"):
        topic_creation(config, True)
