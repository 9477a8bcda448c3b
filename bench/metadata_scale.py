"""What the metadata of a large cluster costs one broker: memory, a snapshot, the loss of a broker.

    python -m bench.metadata_scale --brokers 100 --topics 2000 --partitions 100

The image is made as replay makes it, with three replicas a partition, then one broker goes. All in this
process, without a store; docs/scale.md says what follows for a cluster.
"""

import argparse
import gc
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from moldau.broker.controller.membership import brokers_changed, default_rules
from moldau.broker.metadata.changes import BrokerRegistered, Change, ClusterCreated, TopicCreated, replay
from moldau.broker.metadata.image import EMPTY_IMAGE, Image, PartitionState
from moldau.broker.metadata.store import Registration
from moldau.broker.metadata.zookeeper.payload import decode_snapshot, encode_snapshot, entry_in_slices

R = TypeVar("R")
REPLICAS = 3
_PAGE_BYTES = 4096


def rss_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def timed(work: Callable[[], R]) -> tuple[R, float]:
    """The result and its CPU seconds."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def endpoints(node: int) -> dict[str, tuple[str, int]]:
    return {"PLAINTEXT": (f"broker-{node}.example", 9092)}


def cluster(brokers: int, topics: int, partitions: int, source: random.Random) -> Image:
    """An image of this size, each partition on three random brokers."""
    image = EMPTY_IMAGE

    def apply(changes: Sequence[Change]) -> None:
        nonlocal image
        image = replay(image, image.version + 1, changes)

    apply([ClusterCreated("scale")])
    for node in range(brokers):
        apply([BrokerRegistered(node, 100 + node, endpoints(node), f"rack-{node % 3}")])
    for number in range(topics):
        states = tuple(
            PartitionState.fresh(tuple(source.sample(range(brokers), REPLICAS))) for _ in range(partitions)
        )
        apply([TopicCreated(f"topic-{number:05d}", number.to_bytes(16, "big"), states)])
    return image


def lose_one(image: Image, brokers: int) -> dict[str, float]:
    """Broker 0 goes: decisions until nothing is left to decide, their entries and replay."""
    live = {
        node: Registration(node, endpoints(node), f"rack-{node % 3}", broker_epoch=100 + node)
        for node in range(1, brokers)
    }
    figures = {"entries": 0.0, "entry bytes": 0.0, "decide s": 0.0, "replay s": 0.0, "longest step ms": 0.0}
    while True:
        steps = brokers_changed(image, live, default_rules)
        while True:
            began = time.process_time()
            try:
                next(steps)
            except StopIteration as done:
                decision = done.value
                break
            finally:
                spent = time.process_time() - began
                figures["decide s"] += spent
                figures["longest step ms"] = max(figures["longest step ms"], spent * 1000)
        if not decision.changes:
            return figures
        figures["entries"] += 1
        encoding = entry_in_slices(decision.changes)
        while True:
            try:
                next(encoding)
            except StopIteration as done:
                figures["entry bytes"] += len(done.value)
                break
        before = image
        image, spent = timed(lambda: replay(before, before.version + 1, decision.changes))  # noqa: B023
        figures["replay s"] += spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--topics", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    before = rss_bytes()
    image = cluster(asked.brokers, asked.topics, asked.partitions, random.Random(asked.seed))
    gc.collect()
    figures: dict[str, float] = {"image MB": (rss_bytes() - before) / 1e6}
    snapshot, figures["snapshot encode s"] = timed(lambda: encode_snapshot(image))
    figures["snapshot MB"] = len(snapshot) / 1e6
    _, figures["snapshot decode s"] = timed(lambda: decode_snapshot(snapshot))
    lost = lose_one(image, asked.brokers)
    figures.update({f"one broker lost: {name}": value for name, value in lost.items()})
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=2))


if __name__ == "__main__":
    main()
