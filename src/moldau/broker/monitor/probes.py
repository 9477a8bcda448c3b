"""The probes: each checks one part of the broker and returns conditions.

A probe is a function without arguments, made here from the part it checks; state between two checks (a
condition that lasts a while) is its own. `standard_probes` makes those of a whole broker. Thresholds are
arguments; docs/monitoring.md has their values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from moldau.broker.metadata.image import Image
from moldau.broker.metadata.view import Behind
from moldau.broker.monitor.conditions import Condition, condition
from moldau.broker.monitor.health import Probe
from moldau.broker.monitor.loop_lag import LoopLag
from moldau.broker.monitor.process import ProcessFacts
from moldau.broker.monitor.sources import (
    ClientStateSource,
    FsyncSource,
    ListenerSource,
    LogManagerSource,
    ReplicasSource,
    RequestMemorySource,
    ResponseMemorySource,
    Sources,
    TokenKeysSource,
)
from moldau.common.core.clock import Clock

Found = Iterable[Condition]

_LAG_P99_MS_MAX = 100.0
_LAG_SAMPLES_MIN = 100  # ten seconds: the start itself is no lag
_FSYNC_MS_MAX = 500.0
_FSYNC_REMEMBERED_MS = 60_000
_JUMP_REMEMBERED_MS = 600_000
_DESCRIPTORS_USED_RATIO_MAX = 0.9
_APPENDS_WAITING_MAX = 5_000
_CLIENT_STATE_NEAR = 0.9
_MEMORY_REMEMBERED_MS = 60_000
_NAMED_MAX = 3
_DAY_MS = 86_400_000
_EXPIRES_SOON_MS = 14 * _DAY_MS


def disk_nearly_full(
    part: Callable[[], LogManagerSource | None], min_free_ratio: Callable[[], float]
) -> Probe:
    """disk-nearly-full, for each online data directory (an offline one is log-dir-offline)."""

    def probe() -> Found:
        manager = part()
        for each in manager.directories if manager is not None else ():
            total_bytes, free_bytes = each.free_bytes()
            if total_bytes > 0 and free_bytes < min_free_ratio() * total_bytes:
                share = 100 * free_bytes / total_bytes
                yield condition(
                    "disk-nearly-full", f"{each.path} has {share:.1f} % free ({_bytes_text(free_bytes)})"
                )

    return probe


def log_directories(part: Callable[[], LogManagerSource | None]) -> Probe:
    """log-dir-offline, all-log-dirs-offline, log-dir-full."""

    def probe() -> Found:
        manager = part()
        if manager is None:
            return
        offline = [str(path) for path in manager.offline_dirs]
        if offline and len(offline) >= len(manager.directories):
            yield condition("all-log-dirs-offline", f"all data directories are offline: {', '.join(offline)}")
        else:
            for path in offline:
                yield condition("log-dir-offline", f"{path} is offline")
        for path in manager.full_dirs:
            yield condition("log-dir-full", f"the disk of {path} is full; produce requests to it fail")

    return probe


def recovery(part: Callable[[], LogManagerSource | None]) -> Probe:
    """Recovery, while logs are still being opened and checked."""

    def probe() -> Found:
        manager = part()
        if manager is None:
            return
        progress = manager.startup.progress
        if progress.done < progress.total:
            now = f", now {progress.current}" if progress.current else ""
            yield condition("recovery", f"{progress.done} of {progress.total} logs are checked{now}")

    return probe


def event_loop_lag(lag: LoopLag, p99_ms_max: float = _LAG_P99_MS_MAX) -> Probe:
    """event-loop-lag, by the 99th percentile of the last minute."""

    def probe() -> Found:
        measured = lag.lag()
        if measured.sample_count >= _LAG_SAMPLES_MIN and measured.p99_ms > p99_ms_max:
            yield condition(
                "event-loop-lag",
                f"in the last minute the event loop ran up to {measured.max_ms:.0f} ms late "
                f"(p99 {measured.p99_ms:.0f} ms)",
            )

    return probe


def clock_jumped_back(lag: LoopLag, clock: Clock, remembered_ms: float = _JUMP_REMEMBERED_MS) -> Probe:
    """clock-jumped-back, for ten minutes after it happened."""

    def probe() -> Found:
        jump = lag.jump
        if jump is not None and clock.monotonic_ms() - jump.noticed_ms < remembered_ms:
            ago_s = (clock.monotonic_ms() - jump.noticed_ms) / 1000
            yield condition(
                "clock-jumped-back", f"the clock went back by {jump.back_ms / 1000:.1f} s, {ago_s:.0f} s ago"
            )

    return probe


def file_descriptors(
    read: Callable[[], ProcessFacts],
    used_ratio_max: float = _DESCRIPTORS_USED_RATIO_MAX,
) -> Probe:
    """file-descriptors, near the process's limit."""

    def probe() -> Found:
        facts = read()
        used, limit = facts.open_descriptors, facts.max_descriptors
        if used is not None and limit > 0 and used > used_ratio_max * limit:
            yield condition("file-descriptors", f"{used} of {limit} file descriptors are in use")

    return probe


def slow_fsync(part: Callable[[], FsyncSource | None], clock: Clock, ms_max: float = _FSYNC_MS_MAX) -> Probe:
    """slow-fsync, for a minute after a slow one, so that no check misses it."""
    seen_count, slow_ms, slow_at_ms = 0, 0.0, float("-inf")

    def probe() -> Found:
        nonlocal seen_count, slow_ms, slow_at_ms
        now_ms = clock.monotonic_ms()
        source = part()
        if source is not None and source.fsync_count != seen_count:
            seen_count = source.fsync_count
            if source.fsync_last_ms > ms_max:
                slow_ms, slow_at_ms = source.fsync_last_ms, now_ms
        if now_ms - slow_at_ms < _FSYNC_REMEMBERED_MS:
            yield condition("slow-fsync", f"an fsync took {slow_ms:.0f} ms")

    return probe


def appends_waiting(
    part: Callable[[], ReplicasSource | None], count_max: int = _APPENDS_WAITING_MAX
) -> Probe:
    """appends-waiting: written, but not committed."""

    def probe() -> Found:
        replicas = part()
        if replicas is None:
            return
        count = sum(partition.waiting_count for partition in replicas.partitions())
        if count > count_max:
            yield condition("appends-waiting", f"{count} written batches wait to be committed")

    return probe


def connection_memory(
    requests: Callable[[], RequestMemorySource | None], responses: Callable[[], ResponseMemorySource | None]
) -> Probe:
    """request-memory-full and response-memory-full, while it lasts and for a minute after."""

    def probe() -> Found:
        received, unsent = requests(), responses()
        if received is not None and received.depleted_within(_MEMORY_REMEMBERED_MS):
            yield condition(
                "request-memory-full",
                f"{_bytes_text(received.used_bytes)} of queued.max.request.bytes="
                f"{_bytes_text(received.limit_bytes)} are in use, {received.waiting_count} requests wait, "
                f"{received.closed_count} connections were closed since the start",
            )
        if unsent is not None and unsent.full_within(_MEMORY_REMEMBERED_MS):
            yield condition(
                "response-memory-full",
                f"{unsent.connection_count} clients left {_bytes_text(unsent.used_bytes)} of responses unread"
                f"; moldau.queued.max.response.bytes={_bytes_text(unsent.limit_bytes)}, "
                f"{unsent.closed_count} connections were closed since the start",
            )

    return probe


def client_state(part: Callable[[], ClientStateSource | None]) -> Probe:
    """client-state-full, while it lasts and for a minute after."""

    def probe() -> Found:
        state = part()
        if state is None or state.limit_bytes <= 0:
            return
        near = state.used_bytes >= state.limit_bytes * _CLIENT_STATE_NEAR
        if near or state.full_within(_MEMORY_REMEMBERED_MS):
            held = ", ".join(
                f"{_bytes_text(each.used_bytes)} {each.name.replace('_', ' ')} ({each.evicted_count} closed, "
                f"{each.refused_count} refused since the start)"
                for each in state.accounts
            )
            yield condition(
                "client-state-full",
                f"{_bytes_text(state.used_bytes)} of moldau.client.state.max.bytes="
                f"{_bytes_text(state.limit_bytes)} are in use: {held}",
            )

    return probe


def partitions(part: Callable[[], ReplicasSource | None], node_id: int) -> Probe:
    """partitions-unopened, partitions-damaged, batches-unreadable, offline-partitions and under-min-isr, of
    the partitions here; at-min-isr, of those that this broker leads.
    """

    def probe() -> Found:
        here = part()
        if here is None:
            return
        unopened = [f"{name} ({cause})" for name, cause in sorted(here.unopened.items())]
        damaged: list[str] = []
        unreadable: list[str] = []
        closed: list[str] = []
        under: list[str] = []
        at_min: list[str] = []
        for each in here.partitions():  # once, in a microsecond each: there may be ten thousand
            held = each.log
            if held.offline_cause:
                unopened.append(f"{each.topic}-{each.index} ({held.offline_cause})")
            elif not each.online:
                closed.append(f"{each.topic}-{each.index}")
            if held.damage is not None:
                damaged.append(f"{each.topic}-{each.index} from offset {held.damage[0]} ({held.damage[1]})")
            met = held.unreadable
            if met:
                unreadable += [
                    f"{each.topic}-{each.index} at offset {at} ({why})" for at, why in sorted(met.items())
                ]
            in_sync_count = len(each.isr)
            if in_sync_count < len(each.replicas):
                if in_sync_count < each.min_in_sync:
                    under.append(f"{each.topic}-{each.index}")
                elif in_sync_count == each.min_in_sync and each.leader == node_id:
                    at_min.append(f"{each.topic}-{each.index}")
        if unopened:
            yield condition("partitions-unopened", f"could not be opened or created: {_some(unopened)}")
        if damaged:
            yield condition("partitions-damaged", f"cannot be read: {_some(damaged)}")
        if unreadable:
            yield condition("batches-unreadable", f"no consumer can read: {_some(unreadable)}")
        if closed:
            yield condition("offline-partitions", f"on this broker, offline: {_some(closed)}")
        if under:
            yield condition("under-min-isr", f"below min.insync.replicas: {_some(under)}")
        if at_min:
            yield condition("at-min-isr", f"exactly at min.insync.replicas: {_some(at_min)}")

    return probe


def internal_topics(image: Callable[[], Image], uncreated: Callable[[], Mapping[str, str]]) -> Probe:
    """internal-topics-missing. What another broker has created since is not missing."""

    def probe() -> Found:
        missing = [f"{name} ({why})" for name, why in uncreated().items() if name not in image().topics]
        if missing:
            yield condition("internal-topics-missing", f"could not be created: {_some(missing)}")

    return probe


def metadata_behind(behind: Callable[[], Sequence[Behind]]) -> Probe:
    """metadata-behind, for each part of the broker that failed to follow the metadata."""

    def probe() -> Found:
        for each in behind():
            yield condition("metadata-behind", f"{each.name}, at version {each.version}; {each.error}")

    return probe


def listeners_down(down: Callable[[], Sequence[str]]) -> Probe:
    """listener-down, for each listener for which `down` returns a message."""

    def probe() -> Found:
        return [condition("listener-down", sentence) for sentence in down()]

    return probe


def certificates(listeners: Callable[[], Sequence[ListenerSource]], clock: Clock) -> Probe:
    """certificate-expires, certificate-expired, certificate-not-renewed, for each listener with TLS."""

    def probe() -> Found:
        now_ms = clock.now_ms()
        for each in listeners():
            if each.tls is None:
                continue
            if each.tls.problem is not None:
                yield condition("certificate-not-renewed", each.tls.problem)
            shown = each.tls.certificate
            whose = f"the certificate of the listener {each.name} ({shown.subject})"
            if now_ms >= shown.valid_until_ms:
                yield condition("certificate-expired", f"{whose} has ended")
            elif now_ms < shown.valid_from_ms:
                yield condition("certificate-expired", f"{whose} does not hold yet")
            elif now_ms > shown.valid_until_ms - _EXPIRES_SOON_MS:
                days = (shown.valid_until_ms - now_ms) / _DAY_MS
                yield condition("certificate-expires", f"{whose} ends in {days:.1f} days")

    return probe


def token_keys(keys: Callable[[], Sequence[TokenKeysSource]]) -> Probe:
    """token-keys-not-loaded, for each token issuer whose keys could not be loaded the last time."""

    def probe() -> Found:
        return [
            condition("token-keys-not-loaded", f"{each.url}: {each.error}") for each in keys() if each.error
        ]

    return probe


def standard_probes(
    sources: Sources, lag: LoopLag, clock: Clock, min_free_ratio: Callable[[], float]
) -> list[Probe]:
    """The probes of a whole broker; a part that is still None in `sources` is left out."""
    probes = [
        log_directories(lambda: sources.log_manager),
        recovery(lambda: sources.log_manager),
        disk_nearly_full(lambda: sources.log_manager, min_free_ratio),
        partitions(lambda: sources.replicas, sources.node_id),
        internal_topics(sources.image, sources.uncreated_topics),
        metadata_behind(sources.metadata_behind),
        appends_waiting(lambda: sources.replicas),
        connection_memory(lambda: sources.requests, lambda: sources.responses),
        client_state(lambda: sources.client_state),
        slow_fsync(lambda: sources.fsyncs, clock),
        event_loop_lag(lag),
        clock_jumped_back(lag, clock),
        certificates(lambda: sources.listeners, clock),
        token_keys(lambda: list(sources.token_keys())),
    ]
    if sources.process_facts is not None:
        probes.append(file_descriptors(sources.process_facts))
    return probes


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def _bytes_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
