"""What is known of the cluster: lists, courses, events, verdicts; what a large cluster costs to look at."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.topics import Broker
from moldau.services.console.facts import collector
from moldau.services.console.facts.broker_health import BrokerHealth
from moldau.services.console.facts.collector import Facts
from moldau.services.console.facts.listing import Wanted, listed
from moldau.services.console.facts.series import POINTS, Series
from moldau.services.console.facts.snapshot import Ends, Snapshot, first_snapshot
from moldau.services.console.facts.timeline import KEPT, Event, Timeline, events_between
from moldau.services.console.facts.verdict import verdict_of

T = TypeVar("T")


def part(index: int, leader: int = 1, replicas: Any = (1, 2), in_sync: Any = None) -> Any:
    return SimpleNamespace(
        partition_index=index,
        leader_id=leader,
        replica_nodes=list(replicas),
        isr_nodes=list(replicas if in_sync is None else in_sync),
    )


def answer(topics: dict[str, list[Any]], brokers: Any = (1, 2), controller: int = 1) -> Any:
    return SimpleNamespace(
        brokers=[SimpleNamespace(node_id=each, host="h", port=9092, rack=None) for each in brokers],
        cluster_id="c",
        controller_id=controller,
        topics=[
            SimpleNamespace(name=name, is_internal=name.startswith("__"), error_code=0, partitions=parts)
            for name, parts in topics.items()
        ],
    )


def snapshot(topics: dict[str, list[Any]], at_ms: int = 1, **more: Any) -> Snapshot:
    return first_snapshot(answer(topics, **more), at_ms, None)


# -- lists

NAMES = ["eu.orders", "us.orders", "payments", "Orders-archive", "a"]
KEYS: dict[str, Callable[[str], Any]] = {"name": lambda row: row, "length": lambda row: len(row) or None}


def page(**query: str) -> Any:
    return listed(NAMES, Wanted.of(query, KEYS), KEYS, lambda row: row)


def test_search_is_by_parts_in_any_order_and_case() -> None:
    assert list(page(q="ord eu").rows) == ["eu.orders"]
    assert sorted(page(q="ORDERS").rows) == ["Orders-archive", "eu.orders", "us.orders"]
    assert page(q="nothing").found == 0


def test_order_and_what_is_not_understood() -> None:
    assert page(sort="-length").rows[0] == "Orders-archive"
    assert page(sort="nothing").rows == page().rows
    assert page(page="-1", size="7").rows == page().rows
    assert page(page="99").page == 1


def test_what_is_not_known_comes_last() -> None:
    rows = [("a", None), ("b", 2), ("c", 1)]
    keys: dict[str, Any] = {"name": lambda row: row[0], "lag": lambda row: row[1]}
    for sort, wanted in (("lag", "cba"), ("-lag", "bca")):
        found = listed(rows, Wanted.of({"sort": sort}, keys), keys, lambda row: row[0])
        assert "".join(name for name, _ in found.rows) == wanted


@given(st.integers(0, 400), st.sampled_from([25, 50, 100, 250]))
def test_pages_have_every_row_once(count: int, size: int) -> None:
    rows = [f"{number:04d}" for number in range(count)]
    seen: list[str] = []
    number, pages = 1, 1
    while number <= pages:
        wanted = Wanted.of({"page": str(number), "size": str(size)}, ["name"])
        found = listed(rows, wanted, {"name": lambda row: row}, lambda row: row)
        seen += found.rows
        pages, number = found.pages, number + 1
    assert seen == rows


# -- courses


def test_a_course_and_its_rates() -> None:
    series = Series()
    for step, value in enumerate([5.0, 5.0, 5.0, 25.0, 20.0]):
        series.add(1000 * step, {"t": value, "still": 1.0})
    assert series.course("still") == [(0, 1.0), (4000, 1.0)]
    assert series.course("t") == [(0, 5.0), (2000, 5.0), (3000, 25.0), (4000, 20.0)]
    assert series.rates("t") == [(2000, 0.0), (3000, 20.0), (4000, 0.0)]
    assert series.latest_rates(["t", "still", "none"]) == {"t": 0.0, "still": 0.0}
    series.add(5000, {"still": 1.0})
    assert series.course("t") == []


def test_a_ring_keeps_the_newest() -> None:
    series = Series()
    for step in range(POINTS * 2):
        series.add(step, {"t": float(step)})
    assert series.course("t") == [(step, float(step)) for step in range(POINTS, POINTS * 2)]


# -- events


def texts(old: Snapshot, new: Snapshot) -> list[str]:
    return [each.text for each in events_between(old, new)]


def test_a_broker_that_goes_is_one_story() -> None:
    before = snapshot({"t": [part(index, 2) for index in range(40)]})
    after = snapshot({"t": [part(index, 1, in_sync=[1]) for index in range(40)]}, brokers=[1], controller=1)
    assert texts(before, after) == [
        "Broker 2 is gone",
        "Broker 1 leads 40 partitions that broker 2 led",
        "Broker 2 fell out of sync in 40 partitions, because it is gone",
    ]
    assert texts(after, before) == [
        "Broker 2 has joined",
        "Broker 2 leads 40 partitions that broker 1 led",
        "Broker 2 is in sync again in 40 partitions",
    ]


def test_topics_come_and_go() -> None:
    few = snapshot({"a": [part(0)]})
    many = snapshot({f"t{number}": [part(0)] for number in range(9)})
    assert texts(few, many) == ["9 topics were created, t0 among them", "Topic a was deleted"]
    assert texts(few, snapshot({"a": [part(0), part(1)]})) == ["Topic a has 2 partitions instead of 1"]
    lost = snapshot({"a": [part(0, -1)]})
    assert texts(few, lost) == ["1 partition lost its leader, broker 1"]
    assert events_between(few, few) == []


def test_the_timeline_is_bounded() -> None:
    timeline = Timeline()
    timeline.add(Event(number, "info", str(number)) for number in range(KEPT + 5))
    assert [each.text for each in timeline.newest(2)] == [str(KEPT + 4), str(KEPT + 3)]
    assert len(timeline.newest()) == KEPT


# -- verdicts


def test_any_cluster_has_a_verdict() -> None:
    assert verdict_of(snapshot({"t": [part(0)]}), {}).word == "ok"
    lagging = verdict_of(snapshot({"t": [part(0, in_sync=[1])]}, brokers=[1]), {})
    assert (lagging.word, lagging.causes[0].name) == ("degraded", "under-replicated")
    assert "Broker 2 cannot be seen" in lagging.causes[0].message
    failing = verdict_of(snapshot({"t": [part(0, -1), part(1)]}, controller=-1), {})
    assert failing.word == "failing"
    assert {each.name for each in failing.causes} == {"no-controller", "offline-partitions"}
    assert verdict_of(snapshot({}), {}, "no route").causes[0].name == "unreachable"


def test_brokers_of_ours_tell_the_cause_themselves() -> None:
    cause = {"name": "log-dir-full", "severity": "fail", "message": "/data is full", "remedy": "Free space."}
    told = {1: {"verdict": "failing", "causes": [cause]}, 2: {"verdict": "failing", "causes": [cause]}}
    found = verdict_of(snapshot({"t": [part(0, in_sync=[1])]}), told)
    assert [(each.message, each.where) for each in found.causes] == [("/data is full", "broker 1, 2")]
    odd = {1: {"verdict": "ok", "causes": "nonsense"}}
    assert verdict_of(snapshot({"t": [part(0)]}), odd).word == "ok"


def test_a_broker_that_is_not_ours_is_not_asked_again_at_once() -> None:
    asked: list[str] = []
    now = [0.0]

    def fetch(url: str) -> None:
        asked.append(url)

    health = BrokerHealth(fetch=fetch, clock=lambda: now[0])
    for _ in range(5):
        assert health.told([Broker(1, "kafka", 9092, None)]) == {}
    now[0] = 61.0
    health.told([Broker(1, "kafka", 9092, None)])
    assert asked == ["http://kafka:9640"] * 2


# -- a large cluster: 9,000 topics, 39,000 partitions, 2,200 groups


class LargeCluster:
    """Answers by functions of `client/admin`, and counts how often it is asked for what."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.topics = {
            f"team-{number % 50:02d}.topic-{number:04d}": [
                part(index) for index in range(11 if number % 3 == 0 else 1)
            ]
            for number in range(9_000)
        }

    async def call(self, work: Callable[[Any], T]) -> T:
        return work(self)

    def offsets(self, wanted: dict[Any, int], **_: Any) -> dict[Any, int]:
        self.asked["offsets"] += 1
        return dict.fromkeys(wanted, 10 if -1 in wanted.values() else 0)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> LargeCluster:
    cluster = LargeCluster()
    listed_groups = [
        SimpleNamespace(
            group_id=f"g{number}", coordinator_id=1, state="Stable", type="classic", protocol_type="consumer"
        )
        for number in range(2_200)
    ]

    def counted(name: str, found: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            cluster.asked[name] += 1
            return found(*arguments)

        return ask

    monkeypatch.setattr(collector, "metadata", counted("metadata", lambda _: answer(cluster.topics)))
    monkeypatch.setattr(collector, "list_all_groups", counted("list", lambda _: listed_groups))
    monkeypatch.setattr(collector, "describe_groups", counted("describe", lambda _, some: []))
    monkeypatch.setattr(
        collector,
        "positions_of_groups",
        counted("positions", lambda _, some: {each.group_id: {("t", 0): 1} for each in some}),
    )
    monkeypatch.setattr(collector, "log_directories_if_told", counted("directories", lambda *_: []))
    return cluster


def test_a_large_cluster_is_asked_in_bounded_slices(large: LargeCluster) -> None:
    async def run() -> None:
        facts = Facts(large, BrokerHealth(["http://nowhere"], fetch=lambda url: None))
        await facts.round()
        partitions = (await facts.snapshot()).partition_count
        assert partitions == 39_000
        slices = -(-partitions // collector.SLICE_PARTITIONS)
        group_slices = 2_200 // collector.SLICE_GROUPS
        assert large.asked == {
            "metadata": 1,
            "offsets": 2 * slices,
            "list": 1,
            "describe": group_slices,
            "positions": group_slices,
            "directories": 2,
        }

    asyncio.run(run())


def test_pages_ask_a_large_cluster_nothing(large: LargeCluster) -> None:
    async def run() -> None:
        facts = Facts(large, BrokerHealth(["http://nowhere"], fetch=lambda url: None))
        await facts.round()
        large.asked.clear()
        known = await facts.snapshot()
        for query in ({}, {"q": "team-07 99"}, {"sort": "-records", "page": "3"}):
            keys: dict[str, Any] = {"name": lambda row: row.name, "records": lambda row: row.records}
            found = listed(known.topics.values(), Wanted.of(query, keys), keys, lambda row: row.name)
            assert len(found.rows) <= 50
        facts.verdict(known)
        assert known.broker_shares[1][0] == known.partition_count
        assert not large.asked

    asyncio.run(run())


def test_names_that_are_not_there_do_not_keep_a_cluster_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[float] = []

    async def run() -> None:
        facts = Facts(LargeCluster(), BrokerHealth(["x"], fetch=lambda url: None), refresh_seconds=60.0)

        async def slow_round() -> None:
            began = time.monotonic()
            await asyncio.sleep(0.03)
            facts._tell()
            rounds.append(time.monotonic() - began)

        monkeypatch.setattr(facts, "round", slow_round)
        began = time.monotonic()
        facts.start()
        for _ in range(4):
            await asyncio.gather(*(facts.looked_for() for _ in range(5)))
        spent = time.monotonic() - began
        await facts.close()
        assert len(rounds) >= 3, "they are looked for all the same"
        assert sum(rounds) < spent / 3, "most of the time the cluster has rest"

    asyncio.run(run())


def test_a_cluster_that_does_not_answer_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        class Silent:
            async def call(self, work: Callable[[Any], T]) -> T:
                raise KafkaProblem(7, "no broker could be reached")

        facts = Facts(Silent(), BrokerHealth(["x"], fetch=lambda url: None), refresh_seconds=0.01)
        facts.start()
        monkeypatch.setattr(collector, "FIRST_WAIT_SECONDS", 0.2)
        with pytest.raises(KafkaProblem, match="could be reached"):
            await facts.snapshot()
        await facts.close()
        assert [each.kind for each in facts.timeline.newest()] == ["bad"]

    asyncio.run(run())


def test_a_broker_that_is_gone_holds_up_one_part_only(
    large: LargeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the metadata tells is shown although offsets cannot be asked for; the next round is soon."""

    async def run() -> None:
        facts = Facts(large, BrokerHealth(["x"], fetch=lambda url: None))
        await facts.round()
        large.topics = {"t": [part(0, -1)]}

        def silent(wanted: Any, **_: Any) -> Any:
            raise KafkaProblem(7, "broker 2 does not answer")

        monkeypatch.setattr(large, "offsets", silent)
        large.topics["led"] = [part(0, 2)]
        await facts.round()
        known = await facts.snapshot()
        assert known.offline == (("t", 0),)
        assert facts.verdict(known).word == "failing"
        assert facts.problem == ""
        assert facts._cut_short

    asyncio.run(run())


def test_lag_counts_what_was_never_read() -> None:
    from moldau.client.admin.groups import Group, Member
    from moldau.services.console.facts.snapshot import GroupFacts, group_with_offsets

    facts = GroupFacts("g", "Stable", "classic", "consumer", 1)
    member = Member("m", None, "c", "h", (("t", 0), ("t", 1), ("u", 0)))
    described = Group("g", "Stable", "range", Broker(1, "h", 1, None), (member,))
    ends = {("t", 0): Ends(0, 10), ("t", 1): Ends(5, 25)}
    found = group_with_offsets(facts, described, {("t", 0): 4}, ends)
    assert (found.lag, found.topics, found.members) == (6 + 20, ("t", "u"), 1)
    assert group_with_offsets(facts, None, {("gone", 0): 4}, ends).lag is None
    assert group_with_offsets(facts, None, {}, ends).lag == 0
    idle = described._replace(members=(member._replace(assignment=()),))
    assert group_with_offsets(facts, idle, {}, ends).lag == 0, "such as a registry's instances"
    joining = idle._replace(state="CompletingRebalance")
    assert group_with_offsets(facts, joining, {}, ends).lag is None, "0 would look like a lag that grows"
    assert group_with_offsets(facts, None, {("t", 0): 99}, ends).lag == 0
