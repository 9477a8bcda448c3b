"""Metrics of the broker as a whole: health, process, requests, connections, directories, traffic by topic."""

import platform
from collections.abc import Iterator, Mapping

from moldau.broker.metadata.image import Image
from moldau.broker.monitor.conditions import CONDITIONS
from moldau.broker.monitor.exposition import head, labels, of_each, samples, single
from moldau.broker.monitor.health import Health
from moldau.broker.monitor.loop_lag import LoopLag
from moldau.broker.monitor.process import ProcessFacts
from moldau.broker.monitor.request_times import RequestTimes, cumulative
from moldau.broker.monitor.sources import (
    ClientStateSource,
    ListenerSource,
    LogManagerSource,
    RequestMemorySource,
    ResponseMemorySource,
    Sources,
    TopicStatsSource,
)

NO_LIMIT = (1 << 63) - 1  # as Kafka says it

_TRAFFIC = (
    ("messagesin", "messages_in"),
    ("bytesin", "bytes_in"),
    ("bytesout", "bytes_out"),
    ("totalproducerequests", "produces"),
    ("totalfetchrequests", "fetches"),
    ("failedproducerequests", "failed_produces"),
    ("failedfetchrequests", "failed_fetches"),
)


class Traffic:
    """Counters by topic, and a monotonic total: a deleted topic's share stays in it."""

    def __init__(self) -> None:
        self._seen: dict[str, TopicStatsSource] = {}
        self._gone = dict.fromkeys((attribute for _, attribute in _TRAFFIC), 0)

    def render(self, stats: Mapping[str, TopicStatsSource]) -> Iterator[str]:
        """All counters as they are now."""
        current = dict(stats)
        for topic, old in self._seen.items():
            if current.get(topic) is not old:
                for _, attribute in _TRAFFIC:
                    self._gone[attribute] += getattr(old, attribute)
        self._seen = current
        rows = [(labels(topic=topic), each) for topic, each in current.items()]
        for short, attribute in _TRAFFIC:
            name = f"kafka_server_brokertopicmetrics_{short}_total"
            total = self._gone[attribute] + sum(getattr(each, attribute) for _, each in rows)
            yield from of_each(name, rows, lambda each, attribute=attribute: getattr(each, attribute))  # type: ignore[misc]
            yield f"{name} {total}\n"


def requests(sources: Sources) -> Iterator[str]:
    """Requests by API and version, and their duration."""
    yield samples(
        "kafka_network_requestmetrics_requests_total",
        [
            (labels(request=sources.api_name(api_key), version=version), count)
            for (api_key, version), count in sorted(sources.request_counts.items())
        ],
    )
    yield _durations(sources.request_times, sources)


def _durations(times: RequestTimes, sources: Sources) -> str:
    name = "moldau_request_duration_seconds"
    lines = [head(name)]
    for api_key, histogram in sorted(times.by_api.items()):
        api = sources.api_name(api_key)
        count = 0
        for le_seconds, count in cumulative(histogram):
            bound = "+Inf" if le_seconds is None else le_seconds
            lines.append(f"{name}_bucket{labels(api=api, le=bound)} {count}\n")
        lines.append(f"{name}_sum{labels(api=api)} {histogram.sum_us / 1e6}\n")
        lines.append(f"{name}_count{labels(api=api)} {count}\n")
    return "".join(lines)


def connections(listeners: list[ListenerSource]) -> Iterator[str]:
    """Connections by listener."""
    tags = [(labels(listener=each.name, networkProcessor=0), each) for each in listeners]
    prefix = "kafka_server_socket_server_metrics_connection"
    yield samples(f"{prefix}_count", [(tag, len(each.connections)) for tag, each in tags])
    yield samples(f"{prefix}_creation_total", [(tag, each.accepted_count) for tag, each in tags])
    yield from _logins(tags)
    yield samples(
        "moldau_connections_refused_total",
        [(labels(listener=each.name), each.refused_count) for each in listeners],
    )


def _logins(tags: list[tuple[str, ListenerSource]]) -> Iterator[str]:
    """Logins by listener; a TLS handshake that failed counts as a failed login, as in Kafka."""
    prefix = "kafka_server_socket_server_metrics"
    counted = {
        "successful_authentication_total": [(tag, each.logins.succeeded) for tag, each in tags],
        "failed_authentication_total": [
            (tag, each.logins.failed + each.handshake_failures) for tag, each in tags
        ],
        "successful_reauthentication_total": [(tag, each.logins.succeeded_again) for tag, each in tags],
        "failed_reauthentication_total": [(tag, each.logins.failed_again) for tag, each in tags],
        "expired_connections_killed_count": [(tag, each.logins.expired) for tag, each in tags],
    }
    for name, values in counted.items():
        yield samples(f"{prefix}_{name}", values)


def memory(requests: RequestMemorySource, responses: ResponseMemorySource) -> Iterator[str]:
    """Memory held by connections, and the two limits."""
    limit_bytes = requests.limit_bytes if requests.limit_bytes > 0 else NO_LIMIT
    yield single("kafka_network_socketserver_memorypoolused", requests.used_bytes)
    yield single("kafka_network_socketserver_memorypoolavailable", limit_bytes - requests.used_bytes)
    yield single("moldau_request_memory_depleted_seconds_total", requests.depleted_ms / 1000)
    yield single("moldau_response_memory_used_bytes", responses.used_bytes)
    yield single("moldau_response_memory_limit_bytes", responses.limit_bytes)
    yield samples(
        "moldau_connections_closed_for_memory_total",
        [
            (labels(kind="request"), requests.closed_count),
            (labels(kind="response"), responses.closed_count),
        ],
    )


def client_state(state: ClientStateSource) -> Iterator[str]:
    """What clients make the broker keep, by kind, and its limit."""
    kinds = [(labels(kind=each.name), each) for each in state.accounts]
    yield samples("moldau_client_state_used_bytes", [(tag, each.used_bytes) for tag, each in kinds])
    yield single("moldau_client_state_limit_bytes", state.limit_bytes)
    yield samples("moldau_client_state_evicted_total", [(tag, each.evicted_count) for tag, each in kinds])
    yield samples("moldau_client_state_refused_total", [(tag, each.refused_count) for tag, each in kinds])


def directories(manager: LogManagerSource) -> Iterator[str]:
    """Data directories: free space, failures, and loading progress."""
    yield single("kafka_log_logmanager_offlinelogdirectorycount", len(manager.offline_dirs))
    full = set(manager.full_dirs)
    disks = []
    for each in manager.directories:
        total_bytes, free_bytes = each.free_bytes()
        if total_bytes >= 0:
            disks.append((labels(directory=each.path), total_bytes, free_bytes))
    yield samples("moldau_disk_free_bytes", [(tag, free_bytes) for tag, _, free_bytes in disks])
    yield samples("moldau_disk_size_bytes", [(tag, total_bytes) for tag, total_bytes, _ in disks])
    yield samples(
        "moldau_log_dir_full",
        [(labels(directory=each.path), int(each.path in full)) for each in manager.directories],
    )
    progress = manager.startup.progress
    yield samples(
        "moldau_recovery_logs",
        [(labels(state="done"), progress.done), (labels(state="total"), progress.total)],
    )


def state(sources: Sources, image: Image, health: Health, lag: LoopLag) -> Iterator[str]:
    """The broker's identity, phase, verdict, and its event loop."""
    verdict = health.verdict()
    present = {cause.name for cause in verdict.causes}
    identity = labels(version=sources.version, node_id=sources.node_id, cluster_id=image.cluster_id)
    yield samples("moldau_build_info", [(identity, 1)])
    yield single("moldau_uptime_seconds", round(health.uptime_ms / 1000, 3))
    yield single("kafka_server_kafkaserver_brokerstate", int(health.phase))
    yield single("moldau_health_verdict", verdict.severity)
    yield samples(
        "moldau_health_condition", [(labels(name=name), int(name in present)) for name in CONDITIONS]
    )
    yield single("moldau_ready", int(verdict.unready is None))
    measured = lag.lag()
    yield samples(
        "moldau_event_loop_lag_seconds",
        [
            (labels(quantile="0.5"), measured.p50_ms / 1000),
            (labels(quantile="0.99"), measured.p99_ms / 1000),
            (labels(quantile="1"), measured.max_ms / 1000),
        ],
    )
    idle = round(lag.idle_ratio(), 4)
    yield single("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", idle)
    yield single("kafka_network_socketserver_networkprocessoravgidle_percent", idle)
    if sources.fsyncs is not None:
        yield single("moldau_fsyncs_total", sources.fsyncs.fsync_count)
        yield single("moldau_fsync_last_seconds", sources.fsyncs.fsync_last_ms / 1000)


def this_process(facts: ProcessFacts) -> Iterator[str]:
    """process_* and python_*."""
    figures = {
        "process_cpu_seconds_total": facts.cpu_seconds,
        "process_resident_memory_bytes": facts.resident_bytes,
        "process_virtual_memory_bytes": facts.virtual_bytes,
        "process_start_time_seconds": facts.started_seconds,
        "process_open_fds": facts.open_descriptors,
        "process_max_fds": facts.max_descriptors,
    }
    yield "".join([single(name, value) for name, value in figures.items() if value is not None])
    major, minor, patch = platform.python_version_tuple()
    yield samples(
        "python_info",
        [
            (
                labels(
                    implementation=platform.python_implementation(),
                    major=major,
                    minor=minor,
                    patchlevel=patch,
                    version=platform.python_version(),
                ),
                1,
            )
        ],
    )
    generations = list(enumerate(facts.collections))
    for name, key in (
        ("python_gc_collections_total", "collections"),
        ("python_gc_objects_collected_total", "collected"),
        ("python_gc_objects_uncollectable_total", "uncollectable"),
    ):
        yield samples(name, [(labels(generation=number), each[key]) for number, each in generations])
