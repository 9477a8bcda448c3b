"""Metrics of client quotas: what clients with a quota use, and how often and how long they had to wait."""

from collections.abc import Iterator

from moldau.broker.monitor.exposition import Labels, labels, of_each, samples, single
from moldau.broker.monitor.sources import ListenerSource, MeterSource, QuotasSource

_CLIENTS_MAX = 500  # of each kind: those that were seen last


def quotas(source: QuotasSource, listeners: list[ListenerSource]) -> Iterator[str]:
    """All of them; clients without a quota have no sample."""
    kinds = source.kinds()
    rows: list[tuple[Labels, MeterSource]] = []
    for kind, meters in kinds.items():
        for meter in meters.recent(_CLIENTS_MAX):
            user, client_id = meter.key
            rows.append((labels(kind=kind, user=user or "", client_id=client_id or ""), meter))
    yield from of_each("moldau_quota_used", rows, lambda meter: round(meter.per_second(), 3))
    yield from of_each("moldau_quota_limit", rows, lambda meter: meter.current_limit())
    throttled = {**kinds, "connection": source.connections}
    yield samples(
        "moldau_quota_throttled_total",
        [(labels(kind=kind), each.throttled_count) for kind, each in throttled.items()],
    )
    yield samples(
        "moldau_quota_throttled_seconds_total",
        [(labels(kind=kind), each.throttled_ms / 1_000) for kind, each in throttled.items()],
    )
    yield single("moldau_quota_muted_connections", sum(len(each.muted) for each in listeners))
