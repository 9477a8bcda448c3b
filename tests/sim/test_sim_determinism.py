"""Two whole nodes with their clients on one thread: the same seed gives the same history, event by event.

Twice in one process, and in processes with other hash seeds: whatever would differ (a set in the order of
addresses or hashes, a look at a real clock, a thread) makes another digest. Both nodes are killed and started
again in between, so that recovery is part of it.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sim_admin import committed_offsets, create_topics
from sim_client import SimClient
from sim_deaths import start_until_it_runs
from sim_http import get
from sim_load import Load, Plan
from sim_producer import SimProducer
from sim_reader import read, settled_ends
from sim_trace import Trace
from sim_worker import Worker
from sim_world import World, simulate
from torture.judge_transactions import judge
from torture.ledger import IDEMPOTENT, PLAIN, TRANSACTION

TOPICS = {"left": 3, "right": 2}
SOURCE, TARGET = {"in": 3}, {"out": 2}


def two_nodes(seed: int, *, whole_trace: bool = False) -> Trace:
    """Two brokers, and everything that clients do to a broker, on each of them."""

    async def one_node(world: World, name: str) -> None:
        machine = world.machine(
            name,
            moldau_durability="group",
            log_cleaner_backoff_ms="100",
            group_min_session_timeout_ms="500",
            moldau_http_listener=f"{name}:9644",
        )
        await machine.start()
        client = SimClient(world, f"{name}/judge", machine.address)
        await client.spawn(create_topics(client, TOPICS, internal_segment_bytes="3000"))
        await client.spawn(create_topics(client, SOURCE | TARGET, cleanup_policy="compact"))
        producer = SimProducer(client)
        await client.spawn(producer.initialise())
        rows = [producer.batch(("in", one), [(b"%d" % one, b"%d" % one)] * 3) for one in range(3)]
        await client.spawn(producer.deliver(rows))
        loads = [
            Load(world, f"{name}/{mode}", machine.address, Plan(mode, 10, TOPICS))
            for mode in (TRANSACTION, IDEMPOTENT, PLAIN)
        ]
        workers = [
            Worker(
                world,
                f"{name}/{protocol}",
                machine.address,
                group_id=protocol,
                protocol=protocol,
                source=SOURCE,
                target=TARGET,
            )
            for protocol in ("classic", "consumer")
        ]
        for one in (*loads, *workers):
            one.start()
        pages = 0
        for power in (False, True):
            await world.sleep_ms(400)  # the monitor begins 300 ms after the start
            for path in ("/health", "/metrics", "/"):
                status, body = await client.spawn(get(client, name, 9644, path))
                assert status == 200, (path, status, body)
                pages += 1
            await world.sleep_ms(world.random.random() * 400)
            machine.die_after(world.random.randint(1, 500), power=power)
            await world.until(lambda: not machine.runs, 600)
            await start_until_it_runs(world, machine, power=power)
        await world.until(lambda: all(each.over for each in loads), 600)
        for one in workers:
            await world.until(lambda one=one: bool(one.member.assignment))
            one.kill()
        ends, hanging = await client.spawn(settled_ends(client, TOPICS, 20))
        seen, wrong = await client.spawn(read(client, ends))
        attempts = [attempt for each in loads for attempt in each.attempts]
        complaints = hanging + wrong + judge(attempts, seen)
        assert not complaints, complaints[:20]
        for worker in workers:
            await client.spawn(committed_offsets(client, worker.group_id))
        assert pages == 6
        await machine.stop()

    async def scenario(world: World) -> None:
        nodes = [world.loop.create_task(one_node(world, name)) for name in ("node1", "node2")]
        for node in nodes:
            await node

    return simulate(scenario, seed, whole_trace=whole_trace)[1]


@pytest.mark.seeds(3)
def test_the_same_seed_gives_the_same_history_twice(seed: int) -> None:
    first, second = (two_nodes(seed, whole_trace=True) for _ in range(2))
    assert first.whole is not None
    assert second.whole is not None
    for one, other in itertools.zip_longest(first.whole, second.whole):
        assert one == other
    assert first.digest() == second.digest()
    assert first.count > 3000
    assert {"node1", "node2"} <= {line.split()[1].rstrip(":") for line in first.whole}


def test_other_seeds_give_other_histories() -> None:
    assert two_nodes(1).digest() != two_nodes(2).digest()


@pytest.mark.timeout(300)
def test_the_interpreters_hash_seed_changes_nothing() -> None:
    here = Path(__file__).parent
    program = "import sys, test_sim_determinism as t; print(*(t.two_nodes(seed).digest() for seed in (1, 2)))"
    digests = []
    for hash_seed in "012":
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(
                (str(here), str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")]))
            ),
        }
        found = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stderr[-3000:]
        digests.append(found.stdout.split())
    assert len(digests[0]) == 2
    assert digests[0] == digests[1] == digests[2]
    assert digests[0] == [two_nodes(seed).digest() for seed in (1, 2)]
