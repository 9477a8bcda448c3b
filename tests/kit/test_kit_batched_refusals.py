"""What of a batch is refused: brokers refuse many records for one; and ends that are no exit."""

import asyncio
import multiprocessing
import random
import threading

import pytest
from kit_running import wait_until
from test_kit_batched import read, values

from moldau.kit.batched import Record, batched
from moldau.kit.batched.buffer import MemoryBuffer
from moldau.kit.batched.spooled import SpooledBuffer
from moldau.kit.sending import Outgoing, send_all
from moldau.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as found:
        yield found


def test_only_the_record_at_fault_is_dropped_of_a_batch(broker):
    broker.create_topic("narrow", max_message_bytes=2000)
    too_large = random.Random(1).randbytes(5000)
    dropped = []

    @batched(
        "narrow",
        size=100,
        seconds=60,
        bootstrap_servers=broker.bootstrap_servers,
        on_drop=lambda record, reason: dropped.append((record.value, reason)),
    )
    def work(value):
        return value

    sent = [too_large if number == 50 else b"%d" % number for number in range(100)]
    for value in sent:
        work(value)
    assert work.close(60) == 0
    assert values(read(broker.bootstrap_servers, "narrow")) == [value for value in sent if len(value) < 5000]
    assert dropped == [(too_large, "refused")]
    assert work.stats.sent == 99


class Picky:
    """A producer that does not take one record, and acknowledges the others at once."""

    def produce(self, topic, value, key, on_delivery):
        if value == b"odd":
            raise ValueError("odd")
        on_delivery(None, None)

    def poll(self, seconds):
        return 0


def test_what_the_client_library_does_not_take_is_the_records_own_fault():
    (failure,) = send_all(Picky(), [Outgoing("t", value) for value in (b"first", b"odd", b"last")])
    assert (failure.at, failure.own_fault, failure.text) == (1, True, "odd")


@pytest.mark.parametrize(
    "record",
    [
        Record("v", key=5),  # type: ignore[arg-type]
        Record("v", headers=(("n", 1),)),  # type: ignore[arg-type]
        Record("v", headers=(("\ud800", "x"),)),
    ],
)
def test_a_record_that_is_none_is_the_callers_error(record):
    work = batched("never", bootstrap_servers="127.0.0.1:1")(lambda: record)
    with pytest.raises((TypeError, ValueError)):
        work()
    assert work.waiting == 0


def in_a_worker(bootstrap):
    work = batched("worker", seconds=60, bootstrap_servers=bootstrap)(lambda: "sent")
    work()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_of_multiprocessing_sends_what_waits_at_its_end(broker, method):
    if method == "fork":
        broker.create_topic("worker")
    before = len(read(broker.bootstrap_servers, "worker"))
    worker = multiprocessing.get_context(method).Process(target=in_a_worker, args=(broker.bootstrap_servers,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert len(read(broker.bootstrap_servers, "worker")) == before + 1


def test_a_cancelled_call_leaves_no_thread_that_waits_for_room():
    work = batched("away", size=1, queue_max=1, bootstrap_servers="127.0.0.1:1")

    @work
    async def number(value):
        return str(value)

    async def main():
        await number(1)
        waiting = asyncio.create_task(number(2))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    ended = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    ended.start()
    ended.join(60)  # asyncio.run waits for its threads
    assert not ended.is_alive()
    assert number.waiting == 1
    assert number.close(0) == 1


def test_a_spool_is_synced_while_its_broker_is_away(tmp_path):
    work = batched("away", seconds=0, bootstrap_servers="127.0.0.1:1", spool=tmp_path)(lambda value: value)
    work(b"one")
    buffer = work._buffer()
    assert isinstance(buffer, SpooledBuffer)
    wait_until(lambda: buffer.spool.synced_number == 1, "the first sync")
    work(b"two")  # the first is on its way for ever
    wait_until(lambda: buffer.spool.synced_number == 2, "the second sync")
    assert work.close(0) == 2


def test_a_queue_that_is_given_up_takes_nothing():
    buffer = MemoryBuffer(1, "block", lambda record, reason: None)
    buffer.put([Outgoing("t", b"1")])
    buffer.put([Outgoing("t", b"2")], lambda: True)
    assert buffer.waiting() == 1
