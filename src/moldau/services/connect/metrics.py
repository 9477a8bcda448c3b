"""What a worker counts, at /metrics: Connect's own names, as exporters of its MBeans usually write them.

type=connector-task-metrics,connector=x,task=0  status     kafka_connect_connector_task_status
type=connect-worker-metrics            connector-count     kafka_connect_worker_connector_count
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from moldau.services.connect.herder.interface import WorkerHealth
from moldau.services.connect.herder.worker import Worker
from moldau.services.http.counters import Sample

_HELP = "As Kafka Connect's metric of that name."


def samples(worker: Worker, health: WorkerHealth, may_see: Callable[[str], bool]) -> Iterator[Sample]:
    """All of a worker, those of one name together; of connectors, those that may be seen."""
    rows: dict[str, list[Sample]] = {}
    for where, values in _all(worker).items():
        group, labels = _where(where)
        if not all(may_see(value) for name, value in labels if name == "connector"):
            continue
        for name, value in values.items():
            full = f"kafka_connect_{group}_{name.replace('-', '_')}"
            kind = "counter" if name.endswith("-total") else "gauge"
            rows.setdefault(full, []).append(Sample(full, _HELP, kind, value, labels))
    for each in sorted(rows):
        yield from rows[each]
    yield Sample(
        "moldau_connect_failed",
        "Connectors and tasks of the cluster that have failed.",
        "gauge",
        len(health.failed),
    )


def _all(worker: Worker) -> Mapping[str, Mapping[str, float]]:
    membership = worker.membership
    rebalance = {"epoch": float(membership.generation), "rebalancing": float(membership.is_rebalancing)}
    return {**worker.runtime.metrics(), "connect-worker-rebalance-metrics": rebalance}


def _where(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    group, _, tags = text.partition(",")
    group = group.removesuffix("-metrics").removeprefix("connect-").replace("-", "_")
    labels = []
    for tag in tags.split(","):
        name, equals, value = tag.partition("=")
        if equals:
            labels.append((name.replace("-", "_"), value))
    return group, tuple(labels)
