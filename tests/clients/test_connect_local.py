"""Connect's local engine against a real broker: sources and sinks, failures in between, dead letters."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from connect_parts import (
    QUICK,
    BadRecord,
    ConnectError,
    Ear,
    Numbers,
    Remembering,
    Retriable,
    WholeRuns,
    eventually,
    fresh,
    new_topic,
    place_of,
    read_all,
    running_ears,
    send,
)

from moldau.connect import Read, Refused
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.testing import Broker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "auto.create.topics.enable": "true",
}


@pytest.fixture(scope="module")
def connect_broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def bootstrap(connect_broker: Broker) -> str:
    return connect_broker.bootstrap_servers


@pytest.fixture
def start(bootstrap: str) -> Iterator[Callable[..., Ear]]:
    """A runtime with an ear; several may be started."""
    with running_ears(bootstrap) as make:
        yield make


@pytest.fixture
def topic(bootstrap: str) -> str:
    return new_topic(bootstrap, 2)


def quick(**more: str) -> dict[str, str]:
    return {**QUICK, **more}


def group_offsets(bootstrap: str, group: str, topic: str) -> dict[int, tuple[int, str | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, each) for each in range(2)], 30)
    consumer.close()
    return {each.partition: (each.offset, each.metadata) for each in found if each.offset >= 0}


def values_of(messages: list[Any]) -> list[str]:
    return [each.value().decode() for each in messages]


def source_config(topic: str, kind: type[Any] = Numbers, **more: str) -> Mapping[str, str]:
    return quick(**{"connector.class": place_of(kind), "topic": topic, "count": "50", **more})


def test_a_source_delivers_once_over_failures_and_tells_what_is_committed(start, bootstrap, topic):
    kind = fresh(Numbers, faults=[ConnectError("the cable is cut"), ValueError("a bug"), Retriable("away")])
    ear = start()
    task = ear.run(f"s-{topic}", source_config(topic, kind, **{"errors.retry.delay.max.ms": "50"}))
    eventually(lambda: kind.told.get("a") == 50)
    assert Counter(values_of(read_all(bootstrap, topic, 2))) == Counter(f"a{n}" for n in range(50))
    failed = [each for each in ear.tasks[task] if each.state is State.FAILED]
    assert [each.trace.partition("\n")[0] for each in failed] == [
        "ValueError: a bug",
        "the cable is cut",
    ]
    assert all(each.restarts_at_ms and each.engine == "local" for each in failed)
    assert "Traceback" in failed[0].trace
    assert "Traceback" not in failed[1].trace
    states = [each.state for each in ear.tasks[task]]
    assert states == [State.RUNNING, State.FAILED, State.RESTARTING] * 2 + [State.RUNNING]
    assert (f"s-{topic}", topic) in ear.topics


def test_what_a_source_says_belongs_together_is_one_transaction(start, bootstrap, topic):
    kind = fresh(WholeRuns, failures=[ConnectError("the cable is cut")])
    ear = start()
    task = ear.run(f"s-{topic}", source_config(topic, kind))
    eventually(lambda: kind.told.get("a") == 50)
    assert Counter(values_of(read_all(bootstrap, topic, 2))) == Counter(f"a{n}" for n in range(50))
    assert [each.state for each in ear.tasks[task]].count(State.FAILED) == 1


def test_offsets_have_kafkas_bytes_and_a_new_worker_goes_on_from_them(start, bootstrap, topic):
    kind = fresh(Numbers)
    name = f"s-{topic}"
    ear = start()
    ear.run(name, source_config(topic, kind, names="a,ü"))
    eventually(lambda: kind.told == {"a": 50, "ü": 50})
    ear.runtime.close(30)
    again = start()
    again.run(name, source_config(topic, kind, names="a,ü", count="60"))
    eventually(lambda: kind.told == {"a": 60, "ü": 60})
    wanted = Counter(f"{each}{n}" for each in "aü" for n in range(60))
    assert Counter(values_of(read_all(bootstrap, topic, 2))) == wanted
    offsets = read_all(bootstrap, "connect-offsets", 3)
    own = {each.key(): each.value() for each in offsets if name.encode() in each.key()}
    assert own == {
        f'["{name}",{{"name":"a"}}]'.encode(): b'{"next":60}',
        f'["{name}",{{"name":"ü"}}]'.encode(): b'{"next":60}',
    }


def test_a_topic_of_offsets_of_its_own_is_copied_to_the_workers(start, bootstrap, topic):
    kind = fresh(Numbers)
    name, own = f"s-{topic}", f"own-{topic}"
    ear = start()
    config = source_config(topic, kind, **{"offsets.storage.topic": own})
    ear.run(name, config)
    eventually(lambda: kind.told == {"a": 50})
    ear.runtime.close(30)
    key = f'["{name}",{{"name":"a"}}]'.encode()
    for each in (own, "connect-offsets"):
        found = {message.key(): message.value() for message in read_all(bootstrap, each, 3)}
        assert found[key] == b'{"next":50}'
    again = start()  # it gives its topic up, and goes on
    again.run(name, source_config(topic, kind, count="60"))
    eventually(lambda: kind.told == {"a": 60})
    assert Counter(values_of(read_all(bootstrap, topic, 2))) == Counter(f"a{n}" for n in range(60))


def test_without_transactions_records_come_before_offsets(start, bootstrap, topic):
    kind = fresh(Numbers)
    ear = start(exactly_once_source_support="disabled")
    task = ear.run(f"s-{topic}", source_config(topic, kind))
    eventually(lambda: kind.told.get("a") == 50)
    assert set(values_of(read_all(bootstrap, topic, 2))) == {f"a{n}" for n in range(50)}
    ear.runtime.stop_tasks([task], 30)
    ear.runtime.start_task(
        task, {**ear.given[task.connector], "exactly.once.support": "required"}, State.RUNNING
    )
    eventually(lambda: ear.state(task) is State.FAILED)
    assert "exactly.once.source.support=disabled" in ear.tasks[task][-1].trace


def test_an_older_task_of_the_same_id_is_fenced(start, bootstrap, topic):
    """A worker that was cut off still runs its task: what it reads after the new one began is in no topic."""
    gate = threading.Event()
    held = threading.Event()

    class Gated(Numbers):
        def read(self, partition, offset):
            for each in super().read(partition, offset):
                if each is not None and each.offset["next"] > 20 and type(self).first:
                    type(self).first = False
                    held.set()
                    gate.wait(90)
                yield each

    kind = fresh(Gated, first=True)
    name = f"s-{topic}"
    old = start()
    old.run(name, source_config(topic, kind, **{"moldau.restart.enable": "false"}))
    assert held.wait(90)
    new = start()
    new.run(name, source_config(topic, kind))
    eventually(lambda: kind.told.get("a") == 50)
    gate.set()
    eventually(lambda: old.state(TaskId(name, 0)) is State.FAILED)
    assert "newer task" in old.tasks[TaskId(name, 0)][-1].trace
    assert Counter(values_of(read_all(bootstrap, topic, 2))) == Counter(f"a{n}" for n in range(50))


def sink_config(topic: str, kind: type[Any], **more: str) -> Mapping[str, str]:
    return quick(**{"connector.class": place_of(kind), "topics": topic, **more})


def test_a_sink_writes_every_record_once_and_commits_what_is_flushed(start, bootstrap, topic):
    kind = fresh(Remembering)
    ear = start()
    name = f"k-{topic}"
    ear.run(name, sink_config(topic, kind, **{"tasks.max": "2"}))
    for part in range(3):
        send(bootstrap, topic, [f"x{part}-{n}" for n in range(40)], partition=0)
        send(bootstrap, topic, [f"y{part}-{n}" for n in range(40)], partition=1)
    eventually(lambda: len(kind.values(topic)) == 240)
    eventually(lambda: group_offsets(bootstrap, f"connect-{name}", topic) == {0: (120, ""), 1: (120, "")})
    assert kind.values(topic)[:120] == [f"x{part}-{n}" for part in range(3) for n in range(40)]
    assert not kind.again
    metrics = ear.runtime.metrics()
    sent = sum(
        values["sink-record-send-total"]
        for each, values in metrics.items()
        if each.startswith("sink-task-metrics")
    )
    assert sent == 240
    assert metrics["connect-worker-metrics"]["task-count"] == 2


def test_runs_come_again_as_they_were_after_a_crash(start, bootstrap, topic):
    """The sink fails after it wrote, and nothing is flushed: the same numbers with the same records."""
    faults = [ConnectError("crash") for _ in range(4)]

    def after(batch, number):
        if faults and number > 0:
            faults.pop()
            send(bootstrap, topic, ["later"])  # more to read by the next time
            raise ConnectError("crash")

    kind = fresh(Remembering, after=staticmethod(after))
    ear = start(offset_flush_interval_ms="600000")
    ear.run(f"k-{topic}", sink_config(topic, kind, **{"consumer.override.max.poll.records": "10"}))
    send(bootstrap, topic, [f"v{n}" for n in range(100)])
    eventually(lambda: not faults and len(kind.values(topic)) == 104)
    assert kind.again
    assert not kind.differing
    assert kind.values(topic) == [f"v{n}" for n in range(100)] + ["later"] * 4
    assert kind.flushes == 0  # not by a task that has failed


def test_a_sink_that_is_away_is_asked_again_and_a_failed_flush_is_written_again(start, bootstrap, topic):
    attempts: list[int] = []

    def before(batch, number):
        attempts.append(number)
        if len(attempts) < 4:
            raise Retriable("the database is away")

    faults = [Retriable("full"), Retriable("full")]

    def after(batch, number):  # a flush fails that has something to make lasting
        kind.flush_faults.extend(faults)
        faults.clear()

    kind = fresh(Remembering, before=staticmethod(before), after=staticmethod(after))
    ear = start()
    name = f"k-{topic}"
    task = ear.run(name, sink_config(topic, kind, **{"errors.retry.delay.max.ms": "100"}))
    send(bootstrap, topic, [f"v{n}" for n in range(20)])
    eventually(lambda: group_offsets(bootstrap, f"connect-{name}", topic).get(0) == (20, ""))
    assert kind.again
    assert not kind.differing
    assert kind.values(topic) == [f"v{n}" for n in range(20)]
    assert State.FAILED not in [each.state for each in ear.tasks[task]]


def test_bad_records_become_dead_letters_once_and_the_others_are_written(start, bootstrap, topic):
    """Some do not convert, some the sink refuses (by row, or without saying which), crashes between."""
    faults = [ConnectError("crash"), ConnectError("crash")]

    def before(batch, number):
        values = [row.value for row in _rows(batch)]
        bad = [row for row, value in enumerate(values) if value.get("bad") == "row"]
        if bad:
            raise BadRecord("refused", bad[0])
        if any(value.get("bad") == "secret" for value in values):
            raise BadRecord("one of these is bad")

    def after(batch, number):
        if faults:
            raise faults.pop()

    kind = fresh(Remembering, before=staticmethod(before), after=staticmethod(after))
    letters = f"dead-{topic}"
    ear = start()
    name = f"k-{topic}"
    config = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    values = [json.dumps({"n": n}) for n in range(30)]
    values[3] = "{no json"
    values[11] = json.dumps({"n": 11, "bad": "row"})
    values[17] = json.dumps({"n": 17, "bad": "secret"})
    send(bootstrap, topic, values, headers=[("mine", b"1")])
    ear.run(name, sink_config(topic, kind, **config))
    eventually(lambda: group_offsets(bootstrap, f"connect-{name}", topic).get(0) == (30, ""))
    assert not faults
    assert not kind.differing
    assert [each["n"] for each in kind.values(topic)] == [n for n in range(30) if n not in (3, 11, 17)]
    found = sorted(
        read_all(bootstrap, letters), key=lambda each: dict(each.headers())["__connect.errors.offset"]
    )
    assert sorted(each.value().decode() for each in found) == sorted(values[n] for n in (3, 11, 17))
    headers = [dict(each.headers()) for each in found]
    stages = {each["__connect.errors.offset"]: each["__connect.errors.stage"] for each in headers}
    assert stages == {b"3": b"VALUE_CONVERTER", b"11": b"TASK_PUT", b"17": b"TASK_PUT"}
    assert all(each["mine"] == b"1" and each["__connect.errors.topic"] == topic.encode() for each in headers)


def _rows(batch):
    from moldau.connect import rows

    return rows(batch)


def test_one_bad_record_fails_the_task_where_that_is_not_tolerated(start, bootstrap, topic):
    kind = fresh(Remembering)
    ear = start()
    config = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "moldau.restart.enable": "false",
    }
    send(bootstrap, topic, ["{no json"])
    task = ear.run(f"k-{topic}", sink_config(topic, kind, **config))
    eventually(lambda: ear.state(task) is State.FAILED)
    trace = ear.tasks[task][-1].trace
    assert f"{topic}-0 at offset 0: VALUE_CONVERTER" in trace
    assert "errors.tolerance=all" in trace
    assert ear.tasks[task][-1].restarts_at_ms is None


def test_dead_letters_of_a_source_are_in_the_transaction_of_its_records(start, bootstrap, topic):
    def shout(batch):
        from moldau.connect import rows

        bad = [row for row, each in enumerate(rows(batch)) if each.value == "a13"]
        if bad:
            raise BadRecord("an unlucky number", bad[0])
        return batch

    globals()["shout"] = shout
    kind = fresh(Numbers, faults=[ConnectError("crash")])
    letters = f"dead-{topic}"
    config = {
        "transforms": "shout",
        "transforms.shout.type": f"{__name__}:shout",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    ear = start()
    ear.run(f"s-{topic}", source_config(topic, kind, **config))
    eventually(lambda: kind.told.get("a") == 50)
    wanted = Counter(f"a{n}" for n in range(50) if n != 13)
    assert Counter(values_of(read_all(bootstrap, topic, 2))) == wanted
    (letter,) = read_all(bootstrap, letters)
    headers = dict(letter.headers())
    assert (letter.key(), letter.value()) == (b"a", b"a13")
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.exception.message"] == b"an unlucky number"
    assert headers["__connect.errors.source.partition"] == b'{"name":"a"}'


class Picky(Numbers):
    """Has a number that is no record."""

    def read(self, partition, offset):
        for each in super().read(partition, offset):
            bad = each and [row for row, value in enumerate(each.batches[0].value.values) if value == "a13"]
            if not bad:
                yield each
                continue
            (batch,) = each.batches
            refused = Refused(batch.slice(bad[0], 1), BadRecord("an unlucky number"))
            kept = [row for row in range(len(batch)) if row not in bad]
            yield Read([batch.take(kept)], each.offset, refused=[refused])


def test_what_a_source_cannot_make_a_record_of_is_a_dead_letter_or_fails_the_task(start, bootstrap, topic):
    kind, strict = fresh(Picky, faults=[ConnectError("crash")]), fresh(Picky)
    letters = f"dead-{topic}"
    config = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    ear = start()
    ear.run(f"s-{topic}", source_config(topic, kind, **config))
    eventually(lambda: kind.told.get("a") == 50)
    wanted = Counter(f"a{n}" for n in range(50) if n != 13)
    assert Counter(values_of(read_all(bootstrap, topic, 2))) == wanted
    (letter,) = read_all(bootstrap, letters)
    assert letter.value() == b"a13"
    assert dict(letter.headers())["__connect.errors.stage"] == b"TASK_POLL"
    task = ear.run(f"strict-{topic}", source_config(topic, strict))
    said = eventually(lambda: next((each.trace for each in ear.tasks[task] if each.trace), None))
    assert "TASK_POLL" in said
    assert "an unlucky number" in said
    assert strict.told.get("a", 0) <= 7


def test_pause_and_resume_and_a_task_that_does_not_end_is_left_behind(start, bootstrap, topic):
    gate = threading.Event()
    entered = threading.Event()

    def before(batch, number):
        if any(row.value == "hang" for row in _rows(batch)):
            entered.set()
            gate.wait(90)

    kind = fresh(Remembering, before=staticmethod(before))
    ear = start()
    name = f"k-{topic}"
    task = ear.run(name, sink_config(topic, kind))
    send(bootstrap, topic, ["one"])
    eventually(lambda: kind.values(topic) == ["one"])
    ear.runtime.set_target(name, State.PAUSED)
    eventually(lambda: ear.state(task) is State.PAUSED)
    eventually(lambda: group_offsets(bootstrap, f"connect-{name}", topic).get(0) == (1, ""))
    send(bootstrap, topic, ["two"])
    ear.runtime.set_target(name, State.RUNNING)
    eventually(lambda: kind.values(topic) == ["one", "two"])
    send(bootstrap, topic, ["hang"])
    assert entered.wait(90)
    told = len(ear.tasks[task])
    assert ear.runtime.stop_tasks([task], 0.5) == [task]
    second = fresh(Remembering)
    ear.runtime.start_task(task, {**ear.given[name], "connector.class": place_of(second)}, State.RUNNING)
    eventually(lambda: "hang" in second.values(topic))
    assert second.written.items() <= {**kind.written, (topic, 0, 2): ["hang"]}.items()
    gate.set()
    eventually(lambda: group_offsets(bootstrap, f"connect-{name}", topic).get(0) == (3, ""))
    assert all(each.state is State.RUNNING for each in ear.tasks[task][told:])


def test_a_sink_that_takes_longer_than_a_member_may_stays_in_its_group(start, bootstrap, topic):
    """`max.poll.interval.ms` is over twice during one call; nobody takes the partition, and nothing comes
    again."""
    slow = [14.0]

    def before(batch, number):
        if slow:
            time.sleep(slow.pop())

    kind = fresh(Remembering, before=staticmethod(before))
    ear = start()
    name = f"k-{topic}"
    limits = {
        "consumer.override.max.poll.interval.ms": "7000",
        "consumer.override.session.timeout.ms": "6000",
    }
    task = ear.run(name, sink_config(topic, kind, **limits))
    send(bootstrap, topic, [f"v{n}" for n in range(10)])
    eventually(lambda: group_offsets(bootstrap, f"connect-{name}", topic).get(0) == (10, ""))
    assert kind.values(topic) == [f"v{n}" for n in range(10)]
    assert not kind.again
    assert [each.state for each in ear.tasks[task]] == [State.RUNNING]
