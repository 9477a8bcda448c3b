"""The probe of compaction: log-uncleanable, and compaction-behind when a log waits too long for its turn."""

from collections.abc import Callable, Iterable

from moldau.broker.monitor.conditions import Condition, condition
from moldau.broker.monitor.health import Probe
from moldau.broker.monitor.sources import LogManagerSource

_WAITING_MS_MAX = 3_600_000
_NAMED_MAX = 3


def compaction(part: Callable[[], LogManagerSource | None], waiting_ms_max: float = _WAITING_MS_MAX) -> Probe:
    """log-uncleanable, compaction-behind."""

    def probe() -> Iterable[Condition]:
        manager = part()
        report = None if manager is None else manager.compaction
        if report is None:
            return
        troubles = report.troubles
        for each in troubles[:_NAMED_MAX]:
            more = f" (and {len(troubles) - _NAMED_MAX} other logs)" if len(troubles) > _NAMED_MAX else ""
            yield condition("log-uncleanable", f"{each.key[0]}-{each.key[1]}: {each.cause}{more}")
        waiting = report.longest_due()
        if waiting is not None and waiting[1] > waiting_ms_max:
            logs, size_bytes = report.backlog()
            (topic, partition), waited_ms = waiting
            yield condition(
                "compaction-behind",
                f"{topic}-{partition} has been due for compaction for {waited_ms / 60_000:.0f} minutes; "
                f"{logs} logs with {size_bytes} bytes wait",
            )

    return probe
