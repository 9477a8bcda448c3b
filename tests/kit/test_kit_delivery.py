"""Delivery in words: what each word keeps when the process is killed, the group moves, the broker is away."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from kit_running import Program, running, wait_until, write
from torture.cluster_proxy import Cable

from moldau.kit.delivery import ConsumerLoop
from moldau.kit.errors import BadCall, KitError
from moldau.testing import Broker

MakeTopic = Callable[..., str]


def text(record: Message) -> str:
    return (record.value() or b"").decode()


def make_loop(broker: Broker, topic: str, delivery: str = "at_least_once", **more: Any) -> ConsumerLoop:
    return ConsumerLoop(
        topic,
        group=more.pop("group", f"group-{topic}"),
        delivery=delivery,  # type: ignore[arg-type]
        bootstrap_servers=more.pop("bootstrap", broker.bootstrap_servers),
        config={"heartbeat.interval.ms": 200, "reconnect.backoff.max.ms": 200, **more.pop("config", {})},
        **{"commit_seconds": 0.1, **more},
    )


def committed(broker: Broker, topic: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"group-{topic}"})
    try:
        return int(consumer.committed([TopicPartition(topic, partition)], 30)[0].offset)
    finally:
        consumer.close()


@pytest.mark.parametrize("word", ["at_most_once", "at_least_once", "each_record"])
def test_a_killed_process_keeps_what_its_word_says(
    word: str, shared_broker: Broker, made_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, count, kills = made_topic(2), 1500, 3
    write(shared_broker.bootstrap_servers, topic, [f"r{n}" for n in range(count)], 2)
    program = Program(tmp_path, "delivery", shared_broker.bootstrap_servers, topic, word)
    try:
        for turn in range(kills):
            program.start()
            program.wait_for(200 * (turn + 1))
            program.kill()
        program.start()
        wait_until(
            lambda: sum(committed(shared_broker, topic, n) for n in (0, 1)) >= count, "all is committed"
        )
        program.terminate()
    finally:
        program.kill()
    seen = collections.Counter(program.lines())
    repeated = sum(seen.values()) - len(seen)
    if word == "at_most_once":
        assert repeated == 0
        assert count - len(seen) <= kills * 50, "more was lost than a batch a kill"
    else:
        assert len(seen) == count, "a record was lost"
    if word == "each_record":
        assert repeated <= kills


def stop_after(loop: ConsumerLoop, seen: list[str], enough: int) -> Callable[[Message], None]:
    """A handler that notes records and stops the loop in the middle."""

    def handle(record: Message) -> None:
        seen.append(text(record))
        if len(seen) == enough:
            loop.stop()

    return handle


def test_a_graceful_stop_in_the_middle_repeats_and_loses_nothing(shared_broker: Broker, topic: str) -> None:
    for word in ("at_most_once", "at_least_once", "each_record"):
        shared_broker.create_topic(name := f"{topic}-{word}")
        write(shared_broker.bootstrap_servers, name, [str(n) for n in range(30)])
        seen: list[str] = []
        for enough in (7, 19, 30):
            loop = make_loop(shared_broker, name, word)
            loop.run(stop_after(loop, seen, enough))
        assert seen == [str(n) for n in range(30)], word


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_that_grows_and_shrinks_loses_nothing(
    strategy: str, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic, count = made_topic(4), 2000
    seen: collections.Counter[str] = collections.Counter()
    lock = threading.Lock()

    def handle(records: list[Message]) -> None:
        with lock:
            seen.update(map(text, records))

    config = {"partition.assignment.strategy": strategy}
    first, second = (make_loop(shared_broker, topic, batch=20, config=config) for _ in range(2))
    write(shared_broker.bootstrap_servers, topic, [f"a{n}" for n in range(count)], 4)
    with running(first, lambda: first.run_batches(handle)) as one:
        wait_until(lambda: len(seen) > 100, "the first reads")
        with running(second, lambda: second.run_batches(handle)) as two:
            wait_until(lambda: second.rebalance_count, "the second has partitions")
            write(shared_broker.bootstrap_servers, topic, [f"b{n}" for n in range(count)], 4)
            wait_until(lambda: second.handled_count, "the second reads")
        wait_until(lambda: len(seen) == 2 * count, "all is read")
    assert (one, two) == ([], [])
    # Nobody was killed: what was handled was committed before others got it, so nothing came twice.
    assert {value: times for value, times in seen.items() if times > 1} == {}


@pytest.mark.parametrize("word", ["at_least_once", "each_record"])
def test_a_handler_that_raises_ends_the_loop_at_its_record(
    word: str, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["good", "good", "poison", "good"])

    def handle(record: Message) -> None:
        if text(record) == "poison":
            raise ValueError("no number")

    with pytest.raises(ValueError, match="no number") as raised:
        make_loop(shared_broker, topic, word).run(handle)
    assert raised.value.__notes__ == [f"while handling {topic}[0]@2"]
    assert committed(shared_broker, topic) == 2


def test_poison_is_skipped_after_retries_or_kept_as_a_dead_letter(
    shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    shared_broker.create_topic(f"{topic}-dead")
    write(shared_broker.bootstrap_servers, topic, ["a", "poison", "b", "c"])
    calls: list[str] = []
    loop = make_loop(
        shared_broker, topic, retries=2, retry_seconds=0.01, dead_letters=f"{topic}-dead", on_error="skip"
    )

    def handle(records: list[Message]) -> None:
        calls.extend(map(text, records))
        if "poison" in map(text, records):
            raise ValueError("no number")
        if text(records[-1]) == "c":
            loop.stop()

    loop.run_batches(handle)
    assert calls.count("poison") == 4  # the list, alone, and two retries
    assert loop.skipped_count == 1
    assert committed(shared_broker, topic) == 4
    dead: list[Message] = []
    reader = make_loop(shared_broker, f"{topic}-dead")
    reader.run(lambda record: (dead.append(record), reader.stop()))
    assert text(dead[0]) == "poison"
    assert dict(dead[0].headers() or []) == {  # type: ignore[arg-type]
        "error": b"ValueError: no number",
        "place": f"{topic}[0]@1".encode(),
    }


def test_at_most_once_gives_a_failed_list_up_whole(shared_broker: Broker, made_topic: MakeTopic) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["a", "poison", "b"])
    seen: list[str] = []
    loop = make_loop(shared_broker, topic, "at_most_once", on_error="skip")

    def handle(records: list[Message]) -> None:
        seen.extend(map(text, records))
        if len(seen) >= 3:
            loop.stop()
        raise ValueError("no number")

    loop.run_batches(handle)
    assert sorted(seen) == ["a", "b", "poison"], "given twice"


def test_a_broker_that_is_killed_interrupts_and_loses_nothing(own_broker: Broker, topic: str) -> None:
    own_broker.create_topic(topic)
    write(own_broker.bootstrap_servers, topic, [f"a{n}" for n in range(200)])
    killed = threading.Event()
    waiting: set[str] = set()
    seen: dict[str, list[str]] = {"at_least_once": [], "each_record": [], "at_most_once": []}

    def start(word: str) -> contextlib.AbstractContextManager[list[BaseException]]:
        loop = make_loop(own_broker, topic, word, group=word, batch=20)

        def handle(record: Message) -> None:
            seen[word].append(text(record))
            if len(seen[word]) == 90:  # in the middle of a batch: its commit finds nobody
                waiting.add(word)
                killed.wait(60)

        return running(loop, lambda: loop.run(handle))

    with start("at_least_once") as one, start("each_record") as two, start("at_most_once") as three:
        wait_until(lambda: len(waiting) == 3, "all are in the middle")
        own_broker.kill()
        killed.set()
        own_broker.restart()
        wait_until(lambda: all(len(set(values)) == 200 for values in seen.values()), "all is handled")
    assert (one, two, three) == ([], [], [])
    assert len(seen["at_most_once"]) == 200


def test_a_stalled_network_interrupts_and_a_stop_gets_through(
    cable_and_broker: tuple[Cable, Broker], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    cable, broker = cable_and_broker
    broker.bootstrap_servers = cable.address
    broker.create_topic(topic)
    write(cable.address, topic, [str(n) for n in range(100)])
    seen: list[str] = []
    config = {"socket.timeout.ms": 1000}
    loop = make_loop(broker, topic, bootstrap=cable.address, config=config)
    with running(loop, lambda: loop.run(lambda record: seen.append(text(record)))) as raised:
        wait_until(lambda: len(seen) == 100, "all is read")
        cable.cut()
        wait_until(lambda: "timed out" in caplog.text or "no broker answers" in caplog.text, "it is noticed")
        cable.heal()
        write(cable.address, topic, [str(n) for n in range(100, 200)])
        wait_until(lambda: len(set(seen)) == 200, "reading goes on")
    assert raised == []
    assert set(seen) == {str(n) for n in range(200)}


def test_a_handler_slower_than_the_poll_interval_is_said(
    shared_broker: Broker, made_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["slow", "quick"])
    release, seen = threading.Event(), []
    config = {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}
    slow = make_loop(shared_broker, topic, config=config, batch=1)
    other = make_loop(shared_broker, topic, batch=1)

    def handle(record: Message) -> None:
        seen.append(text(record))
        release.wait(60)

    with running(slow, lambda: slow.run(handle)) as raised:
        wait_until(lambda: seen == ["slow"], "the slow one has it")
        with running(other, lambda: other.run(lambda record: seen.append(text(record)))):
            wait_until(lambda: seen == ["slow", "slow", "quick"], "another has taken over")
            release.set()
            wait_until(lambda: "longer than max.poll.interval.ms" in caplog.text, "it is said")
    assert raised == []


def test_asyncio_handlers_are_awaited_in_the_callers_loop(
    shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, [str(n) for n in range(50)])
    seen: list[str] = []

    async def main() -> None:
        home = asyncio.get_running_loop()
        loop = make_loop(shared_broker, topic)

        async def handle(record: Message) -> None:
            await asyncio.sleep(0)
            assert asyncio.get_running_loop() is home
            seen.append(text(record))
            if len(seen) == 20:
                loop.stop()

        await loop.run_async(handle)
        again = make_loop(shared_broker, topic)

        async def handle_many(records: list[Message]) -> None:
            seen.extend(map(text, records))
            await asyncio.sleep(3600 if len(seen) == 50 else 0)

        task = asyncio.create_task(again.run_batches_async(handle_many))
        await asyncio.to_thread(wait_until, lambda: len(seen) == 50, "the handler waits")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == [str(n) for n in range(50)]
    assert committed(shared_broker, topic) == 20  # the list whose handler was cancelled is handled again


@pytest.mark.parametrize("cut_off", ["cancelled", "interrupted"])
def test_at_most_once_handles_nothing_twice_when_its_handler_is_cut_off(
    shared_broker: Broker, made_topic: MakeTopic, cut_off: str
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, [str(n) for n in range(50)])
    seen: list[str] = []
    ended: list[int] = []

    def handle_now(record: Message) -> None:
        seen.append(text(record))
        if len(seen) == 20:
            raise KeyboardInterrupt

    async def handle(record: Message) -> None:
        seen.append(text(record))
        if len(seen) == 20:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.2)  # a handler that cleans up after itself is waited for
                ended.append(committed(shared_broker, topic))

    async def main() -> None:
        task = asyncio.create_task(make_loop(shared_broker, topic, delivery="at_most_once").run_async(handle))
        await asyncio.to_thread(wait_until, lambda: len(seen) == 20, "the handler waits")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [50]  # nothing was given back before it had ended

    if cut_off == "cancelled":
        asyncio.run(main())
    else:
        with pytest.raises(KeyboardInterrupt):
            make_loop(shared_broker, topic, delivery="at_most_once").run(handle_now)
    assert committed(shared_broker, topic) == 20
    again = make_loop(shared_broker, topic, delivery="at_most_once")
    with running(again, lambda: again.run(lambda record: seen.append(text(record)))):
        wait_until(lambda: len(seen) >= 50, "the rest is handled")
    assert seen == [str(n) for n in range(50)]


def test_bad_input_gets_a_sentence(shared_broker: Broker) -> None:
    def refused(message: str, **more: Any) -> None:
        with pytest.raises(BadCall, match=message):
            ConsumerLoop(**{"topics": "t", "group": "g", "bootstrap_servers": "h:1", **more})

    refused("none of at_most_once, at_least_once, each_record", delivery="exactly_once")
    refused("needs the name of its group", group="")
    refused("name of a topic", topics=[])
    refused("no broker is named", bootstrap_servers=None)
    refused("neither 'stop' nor 'skip'", on_error="ignore")
    refused("a retry may do a thing twice", delivery="at_most_once", retries=1)
    refused("not yours to set", config={"enable.auto.commit": True})
    refused("longer than max.poll.interval.ms", retries=50, retry_seconds=10)
    refused("neither 'beginning' nor 'end'", start="middle")
    refused("above 0", batch=0)
    loop = ConsumerLoop("t", group="g", bootstrap_servers="h:1", config={"no.such.setting": 1})
    with pytest.raises(KitError, match="No such configuration property"):
        loop.run(print)
