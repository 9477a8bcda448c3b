"""`@batched`: what is dropped, kept, retried and ordered; exit, fork, kill -9, a broker that is away."""

import asyncio
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from child_process import child
from confluent_kafka import Consumer, TopicPartition

from moldau.kit.batched import BatchFull, Record, batched
from moldau.kit.batched.buffer import MemoryBuffer
from moldau.kit.batched.record import decode, encode, records_of
from moldau.kit.sending import Outgoing
from moldau.kit.spool import SpoolLocked
from moldau.testing import Broker

PROGRAM = Path(__file__).with_name("batched_program.py")
NOWHERE = "127.0.0.1:1"


def read(bootstrap: str, topic: str) -> list:
    """Everything in partition 0 of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        for message in iter(lambda: consumer.poll(60), None):
            if message.error() is not None:
                return found
            found.append(message)
        raise AssertionError(f"the end of {topic} did not come")
    finally:
        consumer.close()


def values(records: list) -> list[bytes]:
    return [record.value() for record in records]


def run_program(*arguments: str) -> AbstractContextManager[subprocess.Popen]:
    return child([sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


def test_results_go_out_in_order_and_are_returned(broker):
    broker.create_topic("results")

    @batched("results", size=7, seconds=0.01, bootstrap_servers=broker.bootstrap_servers)
    def work(number: int) -> object:
        """Some work."""
        if number == 3:
            return None
        if number == 4:
            return [Record({"n": 4}, key="k", headers=(("h", "x"),)), "five"]
        if number == 6:
            raise ValueError("its own")
        return str(number)

    assert work.__doc__ == "Some work."
    assert [work(number) for number in (0, 1, 2, 3)] == ["0", "1", "2", None]
    work(4)
    with pytest.raises(ValueError, match="its own"):
        work(6)
    assert work.close() == 0
    records = read(broker.bootstrap_servers, "results")
    assert values(records) == [b"0", b"1", b"2", b'{"n": 4}', b"five"]
    assert (records[3].key(), records[3].headers()) == (b"k", [("h", b"x")])
    assert work.stats.sent == 5


def test_calls_and_methods(broker):
    broker.create_topic("calls")

    class Shop:
        @batched("plain", bootstrap_servers=broker.bootstrap_servers)
        def buy(self, what: str) -> str:
            return what

    @batched("calls", of="calls", bootstrap_servers=broker.bootstrap_servers)
    def buy(what: str, count: int = 1) -> bool:
        return True

    assert Shop().buy("tea") == "tea"
    assert buy("tea") is True
    buy.close()
    Shop.buy.close()
    assert values(read(broker.bootstrap_servers, "calls")) == [b'{"what": "tea", "count": 1}']
    with pytest.raises(TypeError, match="return a list"):

        @batched("calls")
        def many():
            yield 1


def test_asyncio_functions_wait_without_holding_the_loop(broker):
    broker.create_topic("async")

    @batched(
        "async", size=5, seconds=0.01, queue_max=5, bootstrap_servers=broker.bootstrap_servers, full="block"
    )
    async def work(number: int) -> str:
        await asyncio.sleep(0)
        return str(number)

    async def main():
        for number in range(200):
            assert await work(number) == str(number)

    asyncio.run(main())
    assert work.close() == 0
    assert values(read(broker.bootstrap_servers, "async")) == [b"%d" % number for number in range(200)]


def test_a_full_queue_raises_drops_the_new_or_the_old():
    def fill(full: str) -> tuple[list[str], dict]:
        dropped: list[str] = []

        @batched(
            "t",
            size=2,
            queue_max=4,
            seconds=100,
            full=full,
            bootstrap_servers=NOWHERE,
            on_drop=lambda record, reason: dropped.append(record.value.decode()),
        )
        def work(number: int) -> str:
            return str(number)

        refused = 0
        for number in range(8):
            try:
                work(number)
            except BatchFull:
                refused += 1
        left = work.close(0.2)
        assert left == 4
        return dropped, {**work.stats.dropped, "refused": refused}

    assert fill("raise") == ([], {"exit": 4, "refused": 4})
    assert fill("drop_new") == (["4", "5", "6", "7"], {"full": 4, "exit": 4, "refused": 0})
    dropped, counts = fill("drop_old")
    assert counts == {"full": 4, "exit": 4, "refused": 0}
    assert set(dropped) <= {"0", "1", "2", "3", "4", "5"}  # what is being sent is not dropped
    assert dropped == sorted(dropped)


def test_a_full_queue_blocks_until_there_is_room():
    buffer = MemoryBuffer(2, "block", lambda record, reason: None)
    buffer.put([Outgoing("t", b"0")])
    buffer.put([Outgoing("t", b"1")])
    assert not buffer.try_put([Outgoing("t", b"2")])
    waiting = threading.Thread(target=buffer.put, args=([Outgoing("t", b"2")],))
    waiting.start()
    assert [record.value for record in buffer.take(2, 0)] == [b"0", b"1"]
    assert buffer.waiting() == 2  # what is being sent counts
    buffer.done(2)
    waiting.join(60)
    assert [record.value for record in buffer.take(2, 0)] == [b"2"]


def test_own_faults_are_dropped_and_a_missing_topic_is_waited_for():
    with Broker(auto_create_topics_enable=False) as broker:
        dropped: list[str] = []

        @batched(
            "small",
            size=1,
            seconds=0,
            bootstrap_servers=broker.bootstrap_servers,
            config={"topic.metadata.propagation.max.ms": 200},
            on_drop=lambda record, reason: dropped.append(reason),
        )
        def work(value: bytes) -> bytes:
            return value

        work(b"one")
        while not work.stats.retried:
            threading.Event().wait(0.05)
        broker.create_topic("small", max_message_bytes=1000)
        work(b"x" * 5000)
        work(b"two")
        assert work.close(60) == 0
        assert values(read(broker.bootstrap_servers, "small")) == [b"one", b"two"]
        assert dropped == ["refused"]


def test_what_waits_is_sent_at_exit(broker):
    broker.create_topic("exit")
    with run_program(broker.bootstrap_servers, "exit", "", "exit") as program:
        assert program.wait(60) == 0
    assert values(read(broker.bootstrap_servers, "exit")) == [b"%d" % number for number in range(500)]


def test_sigterm_ends_as_an_exit(broker):
    broker.create_topic("term")
    with run_program(broker.bootstrap_servers, "term", "", "0") as program:
        said = [int(program.stdout.readline()) for _ in range(300)]
        program.terminate()
        said += [int(line) for line in program.stdout]
        assert program.wait(60) == 128 + 15
    found = [int(value) for value in values(read(broker.bootstrap_servers, "term"))]
    assert found == list(range(len(found)))
    assert len(found) >= len(said)


def test_a_fork_sends_its_own_and_the_parents_once(broker):
    broker.create_topic("fork")
    with run_program(broker.bootstrap_servers, "fork", "", "fork") as program:
        assert program.wait(60) == 0
    assert sorted(values(read(broker.bootstrap_servers, "fork"))) == [b"0", b"1", b"2"]


def test_kill_9_while_the_broker_is_away_loses_nothing_of_a_spool(tmp_path):
    with Broker(process=True, moldau_durability="group") as broker:
        broker.create_topic("spooled")
        begin, spool = 0, str(tmp_path / "spool")
        for round_number in range(3):
            with run_program(broker.bootstrap_servers, "spooled", spool, str(begin)) as program:
                for _ in range(200):
                    last = int(program.stdout.readline())
                if round_number == 1:
                    broker.kill()
                    for _ in range(200):
                        last = int(program.stdout.readline())
                program.kill()
                for line in program.stdout:
                    if line.endswith("\n"):
                        last = int(line)
            begin = last + 1
        broker.restart()

        @batched("spooled", bootstrap_servers=broker.bootstrap_servers, spool=spool)
        def number(value: int) -> str:
            return str(value)

        number(begin)
        with pytest.raises(SpoolLocked, match="in use by another process"):
            batched("spooled", spool=spool)(lambda: "x")()
        assert number.close(60) == 0
        records = read(broker.bootstrap_servers, "spooled")
        by_id = {dict(record.headers())["moldau-id"]: int(record.value()) for record in records}
        found = list(dict.fromkeys(by_id.values()))
        assert set(range(begin + 1)) <= set(
            found
        )  # a call that was killed before it said its number may be there
        assert sorted(found) == found


def test_records_survive_their_encoding():
    returned = [Record("v", b"k", (("h", "ü"),)), Record(None, "k"), {"a": [1]}, b"\x00", "text", 7]
    for record in records_of("t", returned):
        back = decode("t", encode(record), "id:1")
        assert back[:3] == record[:3]
        assert back.headers == (*record.headers, ("moldau-id", b"id:1"))
