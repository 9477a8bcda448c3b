"""How long a request waits at the leader while partitions come: by how many it is for."""

import random

import pytest
from fetch_transcript import fake_partition

from moldau.broker.replication.following.fetch_machine import FetchMachine
from moldau.broker.replication.role_outputs import FetchFrom


@pytest.mark.parametrize(
    ("count", "incremental", "limit_ms", "wait_ms"),
    [
        (1, True, 500, 20),
        (400, True, 500, 40),
        (5_000, True, 500, 100),
        (1, False, 500, 20),
        (200, False, 500, 60),  # each request names all of them
        (5_000, False, 500, 100),
        (5_000, True, 10, 10),
    ],
)
def test_the_more_partitions_the_longer(count: int, incremental: bool, limit_ms: int, wait_ms: int) -> None:
    machine = FetchMachine(2, random.Random(1), pause_ms_max=lambda: 1000, incremental=incremental)
    for index in range(count):
        machine.follow(fake_partition(index), FetchFrom(2, 0, 0))
    machine.tick(0.0)
    assert machine.wait_ms_max(limit_ms, 0.0) == wait_ms
    machine.tick(100.0)
    assert machine.wait_ms_max(limit_ms, 100.0) == (limit_ms if incremental else wait_ms)
