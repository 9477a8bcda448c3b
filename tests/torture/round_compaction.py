"""Scenario c: keyed updates and tombstones on a compacted topic, an eager cleaner, and kill -9 of both.

Some writers are transactional. Besides the topic `__consumer_offsets` must compact itself, and its groups
stand where they were put. A round in which nothing was cleaned proves nothing, and fails.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from torture import kills
from torture.aftermath import ask_committed_offsets, settled_ends
from torture.clients import ClientProcess
from torture.judge_compaction import judge_latest
from torture.judge_transactions import differences
from torture.kills import Kill
from torture.ledger import IDEMPOTENT, TRANSACTION, Attempt, read_ledger
from torture.load import Plan
from torture.offsets_load import OffsetsPlan, expected, judge_groups
from torture.raw_reading import read_by_hand
from torture.reading import Place, Seen, read_committed
from torture.rounds import Round
from torture.seeds import generator

TOPICS = {"map": 2}
SEGMENT_BYTES = 30_000
CLEANED_WITHIN_S = 20.0
OFFSETS_BYTES_CLEANED = 1_400_000
EAGER = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.segment.bytes": "1048576",
    "offsets.topic.num.partitions": "1",
}


@dataclass(frozen=True)
class CompactionSize:
    """How much a round does."""

    attempts: int = 60
    keys: int = 30
    commits: int = 2000
    kills: int = 4


def run(torture: Round, size: CompactionSize) -> str:
    """`delete.retention.ms` is a second or an hour, by the seed: tombstones may go, or must stay."""
    tombstones_stay = torture.draw.random() < 0.5
    victim = torture.victim(EAGER)
    victim.start()
    torture.create_topics(
        TOPICS,
        cleanup_policy="compact",
        internal_segment_bytes=str(SEGMENT_BYTES),
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="3600000" if tombstones_stay else "1000",
    )
    loads = [_load(torture, size, name, mode) for name, mode in (("i", IDEMPOTENT), ("t", TRANSACTION))]
    offsets = _offsets_load(torture, size)
    for one in [*loads, offsets]:
        one.start()
    weights = {kills.BROKER: 3.0, kills.STARTING: 2.0, kills.CHILD: 3.0}
    end = size.attempts * 5 + size.commits * 2
    plan = kills.schedule(generator(torture.seed, "kills"), size.kills, end, weights)
    children = 0

    def strike(kill: Kill) -> None:
        nonlocal children
        if kill.who == kills.CHILD and victim.kill_child(kill.detail):
            children += 1
            return
        victim.kill()
        if kill.who == kills.STARTING:
            victim.kill_while_starting(0.2 + kill.detail)
        victim.start()

    torture.torment([*loads, offsets], plan, strike)
    torture.complain_of_fallen([*loads, offsets])
    attempts = [one for load in loads for one in read_ledger(load.name, load.ledger)]
    written = sum(len(one.records) for one in attempts)
    ends, hanging = settled_ends(victim.address, TOPICS, 20)
    torture.complain(hanging)
    seen = _judged(torture, attempts, ends, tombstones_stay)
    deadline = time.monotonic() + CLEANED_WITHIN_S
    while len(seen) > written // 2 and time.monotonic() < deadline:
        time.sleep(0.5)
        seen = _judged(torture, attempts, ends, tombstones_stay)
    if len(seen) > written // 2:
        torture.complain([f"hardly cleaned: {len(seen)} of {written} records are still there"])
    _judge_groups(torture, offsets)
    victim.kill()
    victim.start()
    torture.complain(settled_ends(victim.address, TOPICS, 20)[1])
    _judged(torture, attempts, ends, tombstones_stay)
    _judge_groups(torture, offsets)
    offsets_bytes = _cleaned_offsets_bytes(torture)
    torture.verdict()
    return (
        f"{len(seen)} of {written} records left; tombstones {'stay' if tombstones_stay else 'go'};"
        f" {victim.deaths} broker, {children} child deaths; __consumer_offsets has {offsets_bytes} bytes"
    )


def _load(torture: Round, size: CompactionSize, name: str, mode: str) -> ClientProcess:
    plan = Plan(
        torture.address,
        name,
        mode,
        torture.seed,
        size.attempts,
        tuple(TOPICS.items()),
        str(torture.folder / f"{name}.ledger"),
        records_max=120,
        key_count=size.keys,
        tombstone_share=0.2,
        transaction_timeout_ms=5000,
    )
    return torture.client(name, "torture.load", plan.to_json())


def _offsets_load(torture: Round, size: CompactionSize) -> ClientProcess:
    path = str(torture.folder / "o.ledger")
    plan = OffsetsPlan(torture.address, "o", torture.seed, "map", 5, size.commits, path)
    return torture.client("o", "torture.offsets_load", plan.to_json())


def _judged(
    torture: Round, attempts: list[Attempt], ends: Mapping[Place, int], tombstones_stay: bool
) -> list[Seen]:
    """Read it all by a client and by hand. The cleaner may work in between, so each is judged alone."""
    seen = read_committed(torture.address, TOPICS, ends)
    torture.complain(judge_latest(attempts, seen, tombstones_stay=tombstones_stay))
    by_hand, wrong = read_by_hand(torture.address, ends)
    torture.complain(wrong)
    torture.complain(judge_latest(attempts, by_hand, tombstones_stay=tombstones_stay))
    torture.complain(one for one in differences("", seen, seen) if "twice" in one or "after" in one)
    return seen


def _cleaned_offsets_bytes(torture: Round) -> int:
    """The size of `__consumer_offsets`, once it is hardly more than its active segment."""
    deadline = time.monotonic() + CLEANED_WITHIN_S
    while True:
        files = torture.the_victim.broker.log_dir().glob("__consumer_offsets-*/*.log")
        found = sum(one.stat().st_size for one in files if one.exists())
        if found < OFFSETS_BYTES_CLEANED:
            return found
        if time.monotonic() > deadline:
            torture.complain([f"__consumer_offsets was not cleaned: {found} bytes"])
            return found
        time.sleep(0.2)


def _judge_groups(torture: Round, offsets: ClientProcess) -> None:
    wanted = expected(offsets.ledger)
    found = {group: ask_committed_offsets(torture.address, group).get(("map", 0), -1) for group in wanted}
    torture.complain(judge_groups(wanted, found))
