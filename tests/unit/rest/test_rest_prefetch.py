"""The shares of consumer instances in what all fetch ahead: bounded in any order of coming and going."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.services.rest.v2.prefetch import (
    LEAST_BYTES,
    MOST_BYTES,
    PrefetchShares,
    buffer_settings,
    with_buffers,
)

MIB = 1024 * 1024


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 512 * MIB),
    st.integers(1, 60),
    st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=120),
)
def test_the_sum_stays_within_the_bound(bytes_max: int, instances_max: int, steps: list[int | None]) -> None:
    shares = PrefetchShares(bytes_max, instances_max)
    held: list[int] = []
    for step in steps:
        if step is not None and held:
            shares.give_back(held.pop(step % len(held)))
        elif len(held) < shares.instances_max:
            held.append(shares.take())
        assert shares.used_bytes == sum(held) <= max(bytes_max, LEAST_BYTES)
        assert all(LEAST_BYTES <= each <= MOST_BYTES for each in held)


def test_the_first_have_much_and_the_last_still_the_least() -> None:
    shares = PrefetchShares(256 * MIB, 500)
    taken = [shares.take() for _ in range(500)]
    assert taken == sorted(taken, reverse=True)
    assert taken[0] > 8 * MIB
    assert taken[-1] == LEAST_BYTES
    assert sum(taken) <= 256 * MIB
    for each in taken:
        shares.give_back(each)
    assert shares.take() == taken[0]


def test_too_little_for_all_means_fewer_instances() -> None:
    assert PrefetchShares(10 * LEAST_BYTES, 500).instances_max == 10
    assert PrefetchShares(1024, 500).instances_max == 1


def test_a_client_keeps_no_more_than_its_share() -> None:
    for share_bytes in (LEAST_BYTES, MIB, MOST_BYTES):
        made = buffer_settings(share_bytes)
        assert made["queued.max.messages.kbytes"] * 1024 + made["fetch.max.bytes"] <= share_bytes
        assert made["message.max.bytes"] <= made["fetch.max.bytes"]


@pytest.mark.parametrize("share_bytes", [LEAST_BYTES, MOST_BYTES])
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"message.max.bytes": "20000000"},
        {"fetch.max.bytes": "50000"},
        {"fetch.max.bytes": "30000000", "message.max.bytes": "2000000"},
    ],
)
def test_a_client_takes_any_share_beside_settings_of_its_own(
    wanted: dict[str, str], share_bytes: int
) -> None:
    made = with_buffers(share_bytes, {"group.id": "g", **wanted})
    assert made.items() >= wanted.items()
    Consumer(made).close()
