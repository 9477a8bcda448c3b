"""What the ZooKeeper store does on this machine, without brokers around it.

    python -m bench.zookeeper_store [--servers 3]

Appends a second from one store, and from ten that compete (each decides again when it was overtaken), all
the time and once each; a failover of 10,000 and of 200,000 partitions as entries of 10,000; a newcomer's
start; a snapshot; how large all of it is in ZooKeeper. The stores share one event loop and one process.
"""

import argparse
import asyncio
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles

from kazoo.client import KazooClient

from moldau.broker.metadata.changes import PartitionChanged, PartitionsChanged, TopicCreated, replay
from moldau.broker.metadata.image import Image, PartitionState
from moldau.broker.metadata.store import Entry, Event, Snapshot, VersionConflict
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import LogReader
from moldau.broker.metadata.zookeeper.options import Options
from moldau.broker.metadata.zookeeper.snapshots import Snapshots
from moldau.broker.metadata.zookeeper.store import ZooKeeperStore
from moldau.common.core.clock import SystemClock
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import LoopTimers
from moldau.ensemble import Ensemble

ONE_STORE_APPENDS = 2_000
TEN_STORES_SECONDS = 8.0
TOPIC_PARTITIONS = 100
FAILOVER_PARTITIONS = 10_000
STATE = PartitionState.fresh((1, 2, 3))
_BROKERS = 100
_SOURCE = random.Random(1)


class Broker:
    """A store, and the image that it makes."""

    def __init__(self, options: Options) -> None:
        loop = asyncio.get_running_loop()
        workers = ThreadPoolExecutor(2)
        self.image = Image()
        self.heard = asyncio.Event()
        self.store = ZooKeeperStore(
            options,
            clock=SystemClock(),
            timers=LoopTimers(loop),
            source=random.SystemRandom(),
            seconds=time.perf_counter,
            offload=lambda blocking: loop.run_in_executor(workers, blocking),
            lane=SlowLane(),
        )

    async def start(self) -> "Broker":
        self.image = await self.store.open()
        await self.store.follow(self.image.version, self._deliver)
        return self

    def _deliver(self, event: Event) -> None:
        if isinstance(event, Entry):
            self.image = replay(self.image, event.version, event.changes)
        elif isinstance(event, Snapshot):
            self.image = event.image
        self.heard.set()

    async def reach(self, version: int) -> None:
        """Return when the image is at this version."""
        while self.image.version < version:
            self.heard.clear()
            await self.heard.wait()


def states(count: int) -> tuple[PartitionState, ...]:
    """Partitions on brokers by chance."""
    return tuple(PartitionState.fresh(tuple(_SOURCE.sample(range(_BROKERS), 3))) for _ in range(count))


def failed_over(state: PartitionState) -> PartitionState:
    """The partition without its leader."""
    _, second, third = state.replicas
    return state._replace(leader=second, leader_epoch=1, partition_epoch=1, isr=(second, third))


def topics(count: int, first: int = 0) -> list[TopicCreated]:
    return [
        TopicCreated(f"topic-{n}", _SOURCE.randbytes(16), states(TOPIC_PARTITIONS))
        for n in range(first, first + count)
    ]


def shown(label: str, samples_ms: list[float], seconds: float) -> None:
    cuts = quantiles(samples_ms, n=100)
    print(
        f"{label}: {len(samples_ms) / seconds:.0f} a second; "
        f"p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms, largest {max(samples_ms):.1f} ms",
        flush=True,
    )


async def one_store(broker: Broker) -> None:
    samples, began = [], time.perf_counter()
    for number in range(ONE_STORE_APPENDS):
        start = time.perf_counter()
        change = PartitionChanged("topic-0", number % TOPIC_PARTITIONS, STATE)
        await broker.store.append_if(broker.image.version, [change])
        samples.append((time.perf_counter() - start) * 1000)
    shown("one store appends", samples, time.perf_counter() - began)


async def ten_stores(brokers: list[Broker], *, once: bool) -> None:
    samples: list[float] = []
    decisions = [0] * len(brokers)
    conflicts = 0
    end = time.perf_counter() + TEN_STORES_SECONDS

    async def decide(broker: Broker, partition: int) -> None:
        nonlocal conflicts
        while time.perf_counter() < end:
            start = time.perf_counter()
            while True:
                try:
                    change = PartitionChanged("topic-0", partition, STATE)
                    await broker.store.append_if(broker.image.version, [change])
                    break
                except VersionConflict:
                    conflicts += 1
            samples.append((time.perf_counter() - start) * 1000)
            decisions[partition] += 1
            if once:
                return

    began = time.perf_counter()
    await asyncio.gather(*(decide(broker, number) for number, broker in enumerate(brokers)))
    if once:
        print(f"ten stores decide once each: {(time.perf_counter() - began) * 1000:.0f} ms", flush=True)
        return
    shown("ten stores that compete decide", samples, time.perf_counter() - began)
    print(f"  {conflicts / len(samples):.1f} conflicts a decision; by store: {decisions}", flush=True)


async def failover(one: Broker, other: Broker, partitions: int) -> None:
    moved = [
        PartitionsChanged(
            topic.name, tuple((n, failed_over(state)) for n, state in enumerate(topic.partitions))
        )
        for topic in list(one.image.topics.values())[: partitions // TOPIC_PARTITIONS]
    ]
    start, at_once = time.perf_counter(), FAILOVER_PARTITIONS // TOPIC_PARTITIONS
    for first in range(0, len(moved), at_once):
        changes = moved[first : first + at_once]
        await one.store.append_if(one.image.version, changes)
    appended = time.perf_counter() - start
    await other.reach(one.image.version)
    print(
        f"{partitions} partitions fail over: appended after {appended * 1000:.0f} ms, at the other broker "
        f"after {(time.perf_counter() - start) * 1000:.0f} ms",
        flush=True,
    )


def sizes(client: KazooClient, layout: Layout) -> str:
    entries = [client.get(f"{layout.entries}/{name}")[1] for name in client.get_children(layout.entries)]
    parts = [client.get(f"{layout.parts}/{name}")[1] for name in client.get_children(layout.parts)]
    largest = max((each.dataLength for each in entries), default=0)
    total = sum(each.dataLength for each in (*entries, *parts))
    snapshot = client.get(layout.snapshot)[1].dataLength
    return (
        f"{len(entries)} entries (the largest has {largest} bytes), {len(parts)} parts, "
        f"{total + snapshot} bytes in all"
    )


async def scale(options: Options, client: KazooClient, one: Broker, other: Broker, partitions: int) -> None:
    while len(one.image.topics) * TOPIC_PARTITIONS < partitions:
        await one.store.append_if(one.image.version, topics(100, len(one.image.topics)))
    await other.reach(one.image.version)
    await failover(one, other, partitions)
    session = one.store.session
    assert session is not None
    layout = Layout(options.root)
    reader = LogReader(session, layout, one.store._offload)
    start = time.perf_counter()
    await Snapshots(session, layout, reader, one.store._offload, random.SystemRandom()).write(0)
    print(f"snapshot of {partitions} partitions: {(time.perf_counter() - start) * 1000:.0f} ms", flush=True)
    print(f"  in ZooKeeper: {sizes(client, layout)}", flush=True)
    newcomer, start = Broker(options), time.perf_counter()
    await newcomer.start()
    print(f"  a newcomer opens it in {(time.perf_counter() - start) * 1000:.0f} ms", flush=True)
    await newcomer.store.close()


async def measure(connect: str) -> None:
    options = Options(connect, f"/bench-{time.time_ns()}", session_timeout_ms=30_000)
    client = KazooClient(connect)
    client.start()
    brokers = [await Broker(options).start() for _ in range(10)]
    await brokers[0].store.append_if(0, topics(1))
    for broker in brokers:
        await broker.reach(1)
    await one_store(brokers[0])
    for _ in range(3):
        await ten_stores(brokers, once=True)
    await ten_stores(brokers, once=False)
    for broker in brokers[2:]:
        await broker.store.close()
    for partitions in (FAILOVER_PARTITIONS, 200_000):
        await scale(options, client, brokers[0], brokers[1], partitions)
    for broker in brokers[:2]:
        await broker.store.close()
    client.stop()


def main() -> None:
    """Start an ensemble and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.zookeeper_store")
    parser.add_argument("--servers", type=int, default=1, help="members of the ensemble")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Ensemble(folder, arguments.servers) as ensemble:
        print(f"{arguments.servers} servers", flush=True)
        asyncio.run(measure(ensemble.connect_string))


if __name__ == "__main__":
    main()
