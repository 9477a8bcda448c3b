"""Probes of the cluster: which broker is missing, since when, and what it costs; the controller; the metadata
store; fetches from leaders.

One cause is one condition: a dead broker with a thousand partitions is one line with a count. Every broker
tells what it sees itself. Not here: how the state is kept (cluster_watch.py), partitions on this broker
(probes.py).
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import StoreStatus
from moldau.broker.monitor.cluster_watch import BEHIND, GONE, OFFLINE, SHUTTING_DOWN, ClusterWatch, Trouble
from moldau.broker.monitor.conditions import Condition, condition
from moldau.broker.monitor.health import Probe
from moldau.broker.monitor.sources import FetcherSource
from moldau.common.core.clock import Clock

Found = Iterable[Condition]

_UNCONTROLLED_MS_MAX = 10_000
_FETCH_FAILS_MS_MAX = 5_000
_STORE_AWAY_SECONDS_MAX = 2.0
_STORE_LATENCY_MS_MAX = 1_000
_FLAPS_WITHIN_MS = 600_000
_FLAPS_MAX = 3
_UNEVEN_RATIO = 1.5
_UNEVEN_COUNT_MIN = 20
_UNEVEN_FOR_MS = 600_000

_WORDS = {
    GONE: "is gone",
    SHUTTING_DOWN: "is shutting down",
    OFFLINE: "has an offline log directory",
    BEHIND: "does not keep up, or is catching up",
}


def when(time_ms: int) -> str:
    """A wall-clock time, for a message."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def listed(names: list[str], count: int) -> str:
    """Some names of `count`, and how many more."""
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def replication(watch: ClusterWatch, image: Callable[[], Image], clock: Clock) -> Probe:
    """offline-partitions, under-replicated, broker-gone, no-controller, in-sync-flapping."""

    def probe() -> Found:
        watch.look(image())
        count, names, since_ms = watch.leaderless()
        if count:
            yield condition(
                "offline-partitions",
                f"without a leader: {listed(names, count)}, since {when(since_ms)}{_able(image(), names)}",
            )
        troubles = watch.troubles()
        for trouble in troubles:
            yield condition("under-replicated", _under_replicated(trouble))
        yield from _gone(watch, {trouble.node_id for trouble in troubles})
        now_ms = clock.now_ms()
        vacant_ms = watch.uncontrolled_since_ms
        if vacant_ms is not None and now_ms - vacant_ms >= _UNCONTROLLED_MS_MAX:
            last = f"; the last was broker {watch.controller_id}" if watch.controller_id >= 0 else ""
            yield condition(
                "no-controller", f"no live broker is the controller since {when(vacant_ms)}{last}"
            )
        for node_id, times in watch.left_since(now_ms - _FLAPS_WITHIN_MS).items():
            if times >= _FLAPS_MAX:
                minutes = _FLAPS_WITHIN_MS // 60_000
                message = (
                    f"broker {node_id} left in-sync sets {times} times in {minutes} minutes, while it lived"
                )
                yield condition("in-sync-flapping", message)

    return probe


def _able(image: Image, names: list[str]) -> str:
    """Which brokers could lead these partitions if they were back, as they have every record (KIP-966); or
    for whom they wait, where no broker is known to have it.
    """
    able: set[int] = set()
    waits: set[int] = set()
    doubtful = False
    for name in names:
        topic, _, index = name.rpartition("-")
        found = image.topics[topic]
        state = found.partitions[int(index)]
        able.update(state.isr or state.elr)
        if state.doubtful:
            doubtful = True
            waits.update(
                node
                for node in (*state.elr, *state.doubtful)
                if node not in image.brokers
                or image.brokers[node].fenced
                or image.brokers[node].has_offline(found.topic_id, int(index))
            )
    if doubtful and waits:
        missing = " and ".join(str(node) for node in sorted(waits))
        return (
            "; their other replicas have lost power, and the longest log leads once "
            f"broker {missing} is back with its log, or an unclean election says that it is gone for good"
        )
    if doubtful:
        return "; their replicas have lost power, and brokers are telling where their logs end"
    if not able:
        return "; no replica is known to have every record"
    return f"; every record is on broker {' or '.join(str(node) for node in sorted(able))}"


def _under_replicated(trouble: Trouble) -> str:
    count = trouble.partition_count
    broker = f"broker {trouble.node_id} {_WORDS[trouble.cause]} since {when(trouble.since_ms)}"
    lack = "partition lacks" if count == 1 else "partitions lack"
    return f"{broker}: {count} {lack} its in-sync replica ({listed(trouble.names, count)})"


def _gone(watch: ClusterWatch, told: set[int]) -> Found:
    """Brokers that are gone, and that no partition lacks."""
    for broker in watch.brokers():
        since_ms = watch.away_since_ms(broker.node_id)
        if broker.fenced and broker.node_id not in told and since_ms is not None:
            yield condition("broker-gone", f"broker {broker.node_id} is gone since {when(since_ms)}")


def uneven_leaders(watch: ClusterWatch, image: Callable[[], Image], clock: Clock) -> Probe:
    """leaders-uneven, when that has lasted for ten minutes."""
    since_ms: float | None = None

    def probe() -> Found:
        nonlocal since_ms
        watch.look(image())
        live = [broker.node_id for broker in watch.brokers() if broker.active]
        counts = {node_id: watch.leaders.get(node_id, 0) for node_id in live}
        total = sum(counts.values())
        most = max(live, key=lambda node_id: counts[node_id], default=-1)
        even = total / len(live) if live else 0.0
        if len(live) < 2 or counts[most] - even < _UNEVEN_COUNT_MIN or counts[most] < _UNEVEN_RATIO * even:
            since_ms = None
            return
        now_ms = clock.monotonic_ms()
        if since_ms is None:
            since_ms = now_ms
        if now_ms - since_ms >= _UNEVEN_FOR_MS:
            yield condition(
                "leaders-uneven",
                f"broker {most} leads {counts[most]} of {total} partitions; evenly spread over {len(live)} "
                f"brokers it would be {even:.0f}",
            )

    return probe


def metadata_store(status: Callable[[], StoreStatus | None]) -> Probe:
    """metadata-store-lost and metadata-store-slow, of a store on other machines."""

    def probe() -> Found:
        store = status()
        if store is None:
            return
        if not store.is_up and store.since_seconds >= _STORE_AWAY_SECONDS_MAX:
            yield condition(
                "metadata-store-lost", f"{store.name} is not reached for {store.since_seconds:.0f} s"
            )
        elif store.latency_ms > _STORE_LATENCY_MS_MAX:
            yield condition(
                "metadata-store-slow",
                f"{store.name} took {store.latency_ms / 1000:.1f} s for its last answer",
            )

    return probe


def leaders_unreachable(
    fetcher: Callable[[], FetcherSource | None], image: Callable[[], Image], clock: Clock
) -> Probe:
    """leader-unreachable, for live brokers whose fetches fail; of a dead one under-replicated tells."""

    def probe() -> Found:
        source = fetcher()
        if source is None:
            return
        brokers, now_ms = image().brokers, clock.monotonic_ms()
        told: dict[int, tuple[float, str]] = {}
        for leader, since_ms, reason in source.failing():
            if leader not in told or since_ms < told[leader][0]:
                told[leader] = (since_ms, reason)
        for leader, (since_ms, reason) in sorted(told.items()):
            broker = brokers.get(leader)
            if broker is not None and not broker.fenced and now_ms - since_ms >= _FETCH_FAILS_MS_MAX:
                since = when(clock.now_ms() - int(now_ms - since_ms))
                message = f"fetches from broker {leader}, which is registered, fail since {since}: {reason}"
                yield condition("leader-unreachable", message)

    return probe
