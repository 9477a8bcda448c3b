"""Which operations are served, and how many a second, with a clock that the tests move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.common.settings.rows import SettingError
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.request_limits import ProduceLimits, Rate, RequestLimits, ServedOperations
from moldau.services.rest.settings import RestSettings


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_lists_of_operations() -> None:
    assert ServedOperations().is_served(["api.v3.topics.list"])
    only = ServedOperations(["api.v3.topics.*", "api.v3.clusters.list"])
    assert only.is_served(["api.v3.topics.delete"])
    assert only.is_served(["api.v3.clusters.list"])
    assert not only.is_served(["api.v3.clusters.get"])
    both = ServedOperations(["api.v3.topics.*"], ["api.v3.topics.delete"])
    assert both.is_served(["api.v3.topics.get"])
    assert not both.is_served(["api.v3.topics.delete"])
    assert not both.is_served(["api.v3.acls.list"])
    assert not ServedOperations((), ["api.v2.produce-to-topic.json"]).is_served(
        ["api.v2.produce-to-topic.binary", "api.v2.produce-to-topic.json"]
    )


def test_a_rate_saves_a_second_and_then_waits() -> None:
    clock = Clock()
    rate = Rate(10, clock)
    for _ in range(10):
        assert rate.wait_seconds() == 0
        rate.take(1)
    assert rate.wait_seconds() == 0  # nothing is left, and nothing owed
    rate.take(5)
    assert rate.wait_seconds() == pytest.approx(0.5)
    clock.seconds += 0.5
    assert rate.wait_seconds() == 0
    clock.seconds += 3600
    assert rate.wait_seconds() == 0
    rate.take(30)  # ten were saved
    assert rate.wait_seconds() == pytest.approx(2)


def limits(clock: Clock, **settings: Any) -> RequestLimits:
    return RequestLimits(
        RestSettings(rate_limit_enable=True, rate_limit_permits_per_sec=4, **settings), clock
    )


def test_requests_cost_what_their_operation_costs() -> None:
    costs = ("api.v3.topics.*=2", "api.v3.topics.list=4", "api.v3.brokers.get=0")
    made = limits(Clock(), rate_limit_costs=costs, rate_limit_default_cost=3)
    assert made.cost(["api.v3.topics.list"]) == 4
    assert made.cost(["api.v3.topics.get"]) == 2
    assert made.cost(["api.v3.brokers.get"]) == 0
    assert made.cost(["api.v3.acls.list"]) == 3


def test_a_request_too_many_is_refused_until_time_has_passed() -> None:
    clock = Clock()
    made = limits(clock, rate_limit_costs=("free=0",))

    async def ask(*names: str) -> None:
        await made.admit(names)

    for _ in range(5):
        asyncio.run(ask("api.v3.topics.list"))
    with pytest.raises(HttpProblem, match=r"rate\.limit\.permits\.per\.sec") as refused:
        asyncio.run(ask("api.v3.topics.list"))
    assert refused.value.status == 429
    assert refused.value.headers["Retry-After"] == "1"
    asyncio.run(ask("free"))
    clock.seconds += 0.25
    asyncio.run(ask("api.v3.topics.list"))


def test_who_comes_again_when_it_was_told_to_is_let_through() -> None:
    clock = Clock()
    made = limits(clock, rate_limit_default_cost=9)
    asyncio.run(made.admit(["a"]))  # five of nine are owed: 1.25 s
    with pytest.raises(HttpProblem) as refused:
        asyncio.run(made.admit(["a"]))
    clock.seconds += int(refused.value.headers["Retry-After"])
    asyncio.run(made.admit(["a"]))


def test_a_request_may_wait_for_its_permits() -> None:
    made = limits(Clock(), rate_limit_timeout_ms=60_000, rate_limit_default_cost=5)

    async def ask() -> list[float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await made.admit(["a"])
        await made.admit(["a"])
        return [loop.time() - began]

    (seconds,) = asyncio.run(ask())
    assert seconds >= 0.2  # one permit was owed


def test_limits_that_are_off_take_nothing() -> None:
    made = RequestLimits(RestSettings(rate_limit_permits_per_sec=1), Clock())
    produce = ProduceLimits(RestSettings(api_v3_produce_rate_limit_max_bytes_per_sec=1), Clock())

    async def ask() -> None:
        for _ in range(20):
            await made.admit(["a"])
            produce.check(1000)

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("settings", "size_bytes", "count"),
    [
        ({"api_v3_produce_rate_limit_max_requests_per_sec": 3}, 1, 4),
        ({"api_v3_produce_rate_limit_max_requests_global_per_sec": 3}, 1, 4),
        ({"api_v3_produce_rate_limit_max_bytes_per_sec": 1000}, 400, 3),
        ({"api_v3_produce_rate_limit_max_bytes_global_per_sec": 1000}, 400, 3),
    ],
)
def test_records_and_bytes_that_are_written(settings: dict[str, int], size_bytes: int, count: int) -> None:
    clock = Clock()
    made = ProduceLimits(RestSettings(api_v3_produce_rate_limit_enabled=True, **settings), clock)
    for _ in range(count):
        made.check(size_bytes)
    with pytest.raises(HttpProblem) as refused:
        made.check(size_bytes)
    assert refused.value.error_code == 429
    clock.seconds += 1
    made.check(size_bytes)


@pytest.mark.parametrize("entry", ["api.v3.topics.*", "=1", "a=", "a=-1", "a=1.5", "a=²"])
def test_costs_that_are_none(entry: str) -> None:
    with pytest.raises(SettingError, match=r"rate\.limit\.costs"):
        limits(Clock(), rate_limit_costs=(entry,))
