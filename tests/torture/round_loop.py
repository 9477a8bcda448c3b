"""Scenario b: workers copy a topic exactly once, while they and the broker are killed with kill -9.

Progress is what the group has committed. A killed worker comes back under its name and thereby ends its own
transaction; its partitions meanwhile go to another, who may not see offsets that are neither committed nor
aborted yet (KIP-447).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Producer
from raw_client import Disconnected

from torture import kills
from torture.aftermath import ask_committed_offsets, settled_ends
from torture.clients import ClientProcess
from torture.judge_loop import judge_offsets, judge_output
from torture.judge_transactions import differences
from torture.kills import Kill
from torture.load import QUICK_RECONNECT
from torture.raw_reading import read_by_hand
from torture.reading import Place, read_committed
from torture.rounds import Round
from torture.seeds import generator
from torture.worker import TRANSACTION_TIMEOUT_MS, WorkPlan, transformed

ASK_INTERVAL_S = 0.05
SOURCE, TARGET = {"in": 3}, {"out": 2}


@dataclass(frozen=True)
class LoopSize:
    """How much a round does."""

    records: int = 1500
    workers: int = 2
    kills: int = 4


def run(torture: Round, size: LoopSize, protocol: str) -> str:
    """`protocol` is `classic` or `consumer` (KIP-848)."""
    victim = torture.victim({})
    victim.start()
    torture.create_topics(SOURCE | TARGET, internal_segment_bytes="50000")
    group = f"copiers-{protocol}"
    values = _fill(torture, size.records)
    ends, hanging = settled_ends(victim.address, SOURCE, 15)
    torture.complain(hanging)
    workers = [_worker(torture, f"w{one}", group, protocol) for one in range(size.workers)]
    for one in workers:
        one.start()
    weights = {kills.BROKER: 3.0, kills.STARTING: 2.0, kills.CLIENT: 5.0}
    plan = kills.schedule(generator(torture.seed, "kills"), size.kills, size.records, weights)
    group_offsets = committed_offsets(victim.address, group)

    def strike(kill: Kill) -> None:
        if kill.who == kills.CLIENT:
            one = workers[int(kill.detail * len(workers))]
            if one.kill():
                one.start()
            return
        victim.kill()
        if kill.who == kills.STARTING:
            victim.kill_while_starting(0.2 + kill.detail)
        victim.start()

    def all_committed() -> bool:
        for one in workers:
            if not one.running():  # it gave itself up
                one.deaths += 1
                one.start()
        return not judge_offsets(group_offsets(), ends)

    done = torture.torment(workers, plan, strike, all_committed, lambda: sum(group_offsets().values()))
    (torture.folder / "stop").touch()
    _wait_for(workers)
    out_ends, hanging = settled_ends(victim.address, TARGET | SOURCE, 15 + TRANSACTION_TIMEOUT_MS / 1000)
    torture.complain(hanging)
    out_ends = {place: end for place, end in out_ends.items() if place[0] in TARGET}
    seen = read_committed(victim.address, TARGET, out_ends)
    torture.complain(judge_output(values, transformed, seen))
    torture.complain(judge_offsets(group_offsets(), ends))
    by_hand, wrong = read_by_hand(victim.address, out_ends)
    torture.complain(wrong)
    torture.complain(differences("a client's reading and one by hand", seen, by_hand))
    victim.kill()
    victim.start()
    torture.complain(settled_ends(victim.address, TARGET, 15)[1])
    group_offsets = committed_offsets(victim.address, group)
    torture.complain(judge_offsets(group_offsets(), ends))
    client_deaths = sum(one.deaths for one in workers)
    torture.verdict()
    return f"{len(seen)} copied once; {done} strikes, {victim.deaths} broker, {client_deaths} worker deaths"


def _fill(torture: Round, count: int) -> list[bytes]:
    """Numbered records, spread over the partitions of the source."""
    producer = Producer({**QUICK_RECONNECT, "bootstrap.servers": torture.address, "enable.idempotence": True})
    values = [f"{number}".encode() for number in range(count)]
    for number, value in enumerate(values):
        producer.produce("in", key=value, value=value, partition=number % SOURCE["in"])
    producer.flush(30)
    return values


def _worker(torture: Round, name: str, group: str, protocol: str) -> ClientProcess:
    plan = WorkPlan(
        torture.address,
        name,
        group,
        protocol,
        torture.seed,
        "in",
        "out",
        TARGET["out"],
        str(torture.folder),
    )
    return torture.client(name, "torture.worker", plan.to_json())


def committed_offsets(address: str, group: str) -> Callable[[], dict[Place, int]]:
    """Asks what a group has committed for good; what it said last while the broker is away."""
    last: dict[Place, int] = {}
    asked_at = 0.0

    def ask() -> dict[Place, int]:
        nonlocal asked_at
        if time.monotonic() > asked_at + ASK_INTERVAL_S:
            with contextlib.suppress(OSError, Disconnected):
                last.update(ask_committed_offsets(address, group))
            asked_at = time.monotonic()
        return dict(last)

    return ask


def _wait_for(workers: list[ClientProcess]) -> None:
    """The workers see the file `stop` and leave."""
    deadline = time.monotonic() + 20
    while any(one.running() for one in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
