"""Request and reply: each request gets one answer or one error, whoever dies in between."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from kit_running import LIMIT_SECONDS, Program, running, wait_until, write
from torture.cluster_proxy import Cable

from moldau.kit.delivery import ConsumerLoop
from moldau.kit.errors import BadCall, KitError, TimedOut
from moldau.kit.requests import AsyncRequester, RemoteError, Requester, Responder
from moldau.kit.requests.headers import Address, headers_of
from moldau.testing import Broker

QUICK = {"heartbeat.interval.ms": 200, "reconnect.backoff.max.ms": 200}


@pytest.fixture
def replies(shared_broker: Broker, topic: str) -> str:
    """The name of the topic of replies; makes both topics."""
    shared_broker.create_topic(topic, 2)
    shared_broker.create_topic(f"{topic}-replies", 3)
    return f"{topic}-replies"


def requester(broker: Broker, topic: str, **more: Any) -> Requester:
    config = {**QUICK, **more.pop("config", {})}
    return Requester(
        topic, replies=f"{topic}-replies", bootstrap_servers=broker.bootstrap_servers, config=config,
        timeout_seconds=more.pop("timeout_seconds", LIMIT_SECONDS), **more,
    )  # fmt: skip


def responder(broker: Broker, topic: str, **more: Any) -> Responder:
    config = {**QUICK, **more.pop("config", {})}
    return Responder(
        topic, group=f"group-{topic}", bootstrap_servers=broker.bootstrap_servers, config=config, **more
    )


def double(record: Message) -> bytes:
    value = record.value() or b""
    if value == b"poison":
        raise ValueError("no number")
    return value * 2


@pytest.mark.usefixtures("replies")
def test_requests_are_answered_and_a_failed_one_gets_its_error(shared_broker: Broker, topic: str) -> None:
    server = responder(shared_broker, topic)
    with running(server, lambda: server.run(double)) as raised, requester(shared_broker, topic) as ask:
        other = requester(shared_broker, topic, partition=0)
        assert ask.request(b"ab") == b"abab"
        with pytest.raises(RemoteError, match="ValueError: no number"):
            ask.request(b"poison")
        futures = [ask.submit(str(number), key=str(number)) for number in range(200)]
        assert [future.result(LIMIT_SECONDS) for future in futures] == [
            f"{n}{n}".encode() for n in range(200)
        ]
        with other:
            assert other.request("x") == b"xx"
    assert raised == []
    assert server.answered_count == 203


@pytest.mark.usefixtures("replies")
def test_a_killed_responder_is_replaced_and_each_request_has_one_answer(
    shared_broker: Broker, topic: str, tmp_path: Path
) -> None:
    programs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        programs.append(Program(tmp_path / name, "responder", shared_broker.bootstrap_servers, topic))
    try:
        programs[0].start()
        with requester(shared_broker, topic) as ask:
            assert ask.request("0") == b"00"
            futures = [ask.submit(str(number), key=str(number)) for number in range(1, 400)]
            programs[0].wait_for(50)
            programs[0].kill()  # answered and not committed, or committed and not answered: never the latter
            programs[1].start()
            _, left = wait(futures, LIMIT_SECONDS)
            assert not left
            assert [future.result() for future in futures] == [f"{n}{n}".encode() for n in range(1, 400)]
    finally:
        for program in programs:
            program.kill()


def test_the_same_request_again_gets_the_same_answer_marked(
    shared_broker: Broker, topic: str, replies: str
) -> None:
    address = Address(b"c1", replies, 1, None)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers})
    for _ in range(2):
        producer.produce(topic, b"ab", headers=address.encode(), partition=0)
    assert producer.flush(LIMIT_SECONDS) == 0
    for is_async in (False, True):
        calls: list[bytes | None] = []
        server = responder(shared_broker, topic) if not is_async else Responder(
            topic, group=f"async-{topic}", bootstrap_servers=shared_broker.bootstrap_servers
        )  # fmt: skip

        def answer(record: Message, calls: list[bytes | None] = calls) -> bytes:
            calls.append(record.value())
            return str(len(calls)).encode()

        async def answer_async(record: Message, calls: list[bytes | None] = calls) -> bytes:
            await asyncio.sleep(0)
            calls.append(record.value())
            return str(len(calls)).encode()

        def serve(server: Responder = server, is_async: bool = is_async) -> None:
            if is_async:
                asyncio.run(server.run_async(answer_async))
            else:
                server.run(answer)

        with running(server, serve):
            wait_until(lambda server=server: server.duplicate_count == 1, "both are answered")
        assert calls == [b"ab"]
    found: list[tuple[int, bytes | None, bool]] = []
    reader = ConsumerLoop(replies, group=f"look-{topic}", bootstrap_servers=shared_broker.bootstrap_servers)

    def take(record: Message) -> None:
        found.append((record.partition() or 0, record.value(), "duplicate" in headers_of(record)))
        if len(found) == 4:
            reader.stop()

    reader.run(take)
    assert found == [(1, b"1", False), (1, b"1", True)] * 2


@pytest.mark.usefixtures("replies")
def test_nobody_answers_and_stale_requests_are_dropped(shared_broker: Broker, topic: str) -> None:
    with requester(shared_broker, topic) as ask:
        with pytest.raises(TimedOut, match="no reply in"):
            ask.request("stale", timeout_seconds=0.2)
        write(shared_broker.bootstrap_servers, topic, ["no request"])
        server = responder(shared_broker, topic)
        handled: list[bytes | None] = []
        with running(server, lambda: server.run(lambda record: handled.append(record.value()))):
            assert ask.request("fresh") is None
            wait_until(lambda: server.expired_count == 1 and server.malformed_count == 1, "both are dropped")
        assert handled == [b"fresh"]
        slow = responder(shared_broker, topic)
        release = threading.Event()

        def late(record: Message) -> bytes:
            release.wait(LIMIT_SECONDS)
            return b"late"

        with running(slow, lambda: slow.run(late)):
            with pytest.raises(TimedOut):
                ask.request("slow", timeout_seconds=3.0)
            release.set()
            wait_until(lambda: slow.expired_count or ask.dropped_count, "the late reply is dropped")


@pytest.mark.usefixtures("replies")
def test_asyncio_on_both_sides_works_on_many_at_once(shared_broker: Broker, topic: str) -> None:
    busy = {"now": 0, "most": 0}

    async def main() -> None:
        server = responder(shared_broker, topic)

        async def slow(record: Message) -> bytes:
            busy["now"] += 1
            busy["most"] = max(busy["most"], busy["now"])
            await asyncio.sleep(0.01)
            busy["now"] -= 1
            return double(record)

        serving = asyncio.create_task(server.run_async(slow))
        async with AsyncRequester(
            topic, replies=f"{topic}-replies", bootstrap_servers=shared_broker.bootstrap_servers
        ) as ask:
            asked = [ask.request(str(number), timeout_seconds=60.0) for number in range(300)]
            assert await asyncio.gather(*asked) == [f"{n}{n}".encode() for n in range(300)]
            with pytest.raises(RemoteError):
                await ask.request(b"poison")
            assert ask.dropped_count == 0
        server.stop()
        await serving

    asyncio.run(main())
    assert busy["most"] > 1


def test_a_killed_broker_and_a_stalled_network_delay_only(
    cable_and_broker: tuple[Cable, Broker], topic: str
) -> None:
    cable, broker = cable_and_broker
    broker.bootstrap_servers = cable.address
    broker.create_topic(topic, 2)
    broker.create_topic(f"{topic}-replies", 2)
    server = responder(broker, topic, config={"socket.timeout.ms": 1000})
    with (
        running(server, lambda: server.run(double)) as raised,
        requester(broker, topic, config={"socket.timeout.ms": 1000}) as ask,
    ):
        assert ask.request("a") == b"aa"
        broker.kill()
        future = ask.submit("b")
        broker.restart()
        assert future.result(LIMIT_SECONDS) == b"bb"
        cable.cut()
        future = ask.submit("c")
        with pytest.raises(TimedOut):
            ask.request("d", timeout_seconds=1.5)
        cable.heal()
        assert future.result(LIMIT_SECONDS) == b"cc"
    assert raised == []


def test_a_reply_topic_that_is_gone_does_not_end_the_responder(
    own_broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    own_broker.create_topic(topic)
    own_broker.create_topic(f"{topic}-replies")
    producer = Producer({"bootstrap.servers": own_broker.bootstrap_servers})
    producer.produce(topic, "x", headers=Address(b"c", f"{topic}-replies", 7, None).encode())
    assert producer.flush(LIMIT_SECONDS) == 0
    server = responder(own_broker, topic)
    with running(server, lambda: server.run(double)) as raised, requester(own_broker, topic) as ask:
        assert ask.request("a") == b"aa"
    assert raised == []
    assert "was dropped" in caplog.text


@pytest.mark.parametrize("asynchronous", [False, True])
def test_no_request_and_no_reply_ends_the_responder(
    own_broker: Broker, topic: str, asynchronous: bool
) -> None:
    own_broker.create_topic(topic)
    own_broker.create_topic(f"{topic}-replies")
    own_broker.create_topic(f"{topic}-compacted", cleanup_policy="compact")
    good = Address(b"c", f"{topic}-replies", 0, None)
    hostile = [
        good._replace(partition=1 << 40),
        good._replace(partition=-1),
        good._replace(topic="a\0b"),
        good._replace(topic=""),
        good._replace(correlation=b"x" * 100_000),
    ]
    producer = Producer({"bootstrap.servers": own_broker.bootstrap_servers})
    for address in hostile:
        producer.produce(topic, "x", headers=address.encode())
    producer.produce(topic, "x", headers=good._replace(topic=f"{topic}-compacted").encode())
    assert producer.flush(LIMIT_SECONDS) == 0

    def odd(record: Message) -> Any:
        value = record.value() or b""
        if value == b"surrogate":
            raise ValueError("\ud800")
        return {b"number": 5, b"half": "\ud800"}.get(value, value)

    async def odd_async(record: Message) -> Any:
        return odd(record)

    server = responder(own_broker, topic)

    def run() -> None:
        if asynchronous:
            asyncio.run(server.run_async(odd_async))
        else:
            server.run(odd)

    with running(server, run) as raised, requester(own_broker, topic) as ask:
        for request, says in (("number", "returned int"), ("half", "Unicode"), ("surrogate", "ValueError")):
            with pytest.raises(RemoteError, match=says):
                ask.request(request)
        assert ask.request("a") == b"a"
        wait_until(lambda: server.malformed_count == len(hostile), "they are counted")
    assert raised == []


def test_a_request_that_is_made_as_the_requester_ends_is_answered_with_an_error(
    shared_broker: Broker, topic: str, replies: str
) -> None:
    ask = requester(shared_broker, topic).open()
    ask.close()
    ask._producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers})  # as if it had it still
    with pytest.raises(KitError, match="was closed"):
        ask.submit("nobody answers").result(0)


def test_bad_calls_of_requests_get_a_sentence(shared_broker: Broker, topic: str, replies: str) -> None:
    with pytest.raises(BadCall, match="cannot share"):
        Requester(topic, replies=topic, bootstrap_servers="h:1")
    with pytest.raises(BadCall, match="need a topic to ask on"):
        Requester(topic, replies="", bootstrap_servers="h:1")
    with pytest.raises(BadCall, match="has 3 partitions, none numbered 9"):
        requester(shared_broker, topic, partition=9).open()
    with pytest.raises(BadCall, match="is not open"):
        requester(shared_broker, topic).request("a")
    with pytest.raises(KitError, match=r"it does not exist. Make it first: moldau topics create"):
        Requester(f"{topic}-none", replies=replies, bootstrap_servers=shared_broker.bootstrap_servers).open()
    with pytest.raises(BadCall, match="run_async"):
        responder(shared_broker, topic).run(asyncio.sleep)  # type: ignore[arg-type]
    ask = requester(shared_broker, topic).open()
    future = ask.submit("nobody answers")
    ask.close()
    with pytest.raises(KitError, match="was closed"):
        future.result(0)
