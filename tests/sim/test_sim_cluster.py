"""Three brokers, random clients, random faults: acknowledged records stay, once, in order; transactions are
whole; nobody skips or goes back; and after everything is healed, the cluster is whole again.
"""

from __future__ import annotations

import pytest
from sim_cluster_faults import ALL, DISKS, Misfortune, power_cut
from sim_cluster_random import replicated


@pytest.mark.seeds(110)
def test_what_was_acknowledged_survives_random_faults(seed: int) -> None:
    replicated(seed)


@pytest.mark.seeds(40)
def test_what_was_acknowledged_survives_power_cuts(seed: int) -> None:
    replicated(seed, (power_cut, power_cut, *ALL))


@pytest.mark.seeds(28)
def test_what_was_acknowledged_survives_failing_disks(seed: int) -> None:
    replicated(seed, (*DISKS, *DISKS, *ALL))


@pytest.mark.parametrize(
    ("found_at", "kinds"), [(101, DISKS * 2 + ALL), (108, ALL), (300039, ALL), (500127, ALL)]
)
def test_seeds_that_found_something(found_at: int, kinds: tuple[Misfortune, ...]) -> None:
    """101, 108: a new replica began in the middle of a batch, where DeleteRecords had put the log's start,
    and refused that batch for ever. 300039: a reader was sent for ever to a replica that it did not know.
    500127: a follower kept other records below the start of its leader's log.
    """
    replicated(found_at, kinds)


@pytest.mark.seeds(1)
def test_a_seed_decides_what_replication_does(seed: int) -> None:
    assert replicated(seed) == replicated(seed)
