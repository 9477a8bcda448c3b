"""The probe and metrics of mirrors of other clusters' topics. Not here: how they are pulled (mirror/)."""

from collections.abc import Callable, Iterable, Iterator

from moldau.broker.metadata.image import Image
from moldau.broker.metadata.mirrors import MirrorState
from moldau.broker.monitor.conditions import Condition, condition
from moldau.broker.monitor.exposition import labels, samples
from moldau.broker.monitor.health import Probe
from moldau.broker.monitor.sources import MirrorRow, MirrorsSource

_BEHIND_SECONDS_MAX = 60.0
_NAMED_MAX = 3


def mirrors(image: Callable[[], Image], part: Callable[[], MirrorsSource | None]) -> Probe:
    """mirror-faulted, mirror-behind, mirror-cut."""

    def probe() -> Iterable[Condition]:
        faulted = [
            (name, each) for name, each in image().mirrors.items() if each.state is MirrorState.FAULTED
        ]
        for name, each in faulted[:_NAMED_MAX]:
            more = f" (and {len(faulted) - _NAMED_MAX} other topics)" if len(faulted) > _NAMED_MAX else ""
            yield condition("mirror-faulted", f"{name}, over the link {each.link}: {each.reason}{more}")
        found = part()
        rows = [] if found is None else list(found.rows())
        behind = [row for row in rows if (row.lost_seconds or 0) > _BEHIND_SECONDS_MAX]
        if behind:
            worst = max(behind, key=lambda row: row.lost_seconds or 0)
            why = worst.problem or f"{worst.behind} records behind"
            yield condition(
                "mirror-behind",
                f"{worst.topic}-{worst.partition}, over the link {worst.link}: a failover now would lose "
                f"{worst.lost_seconds or 0:.0f} s ({why}); {len(behind)} partitions are behind",
            )
        cut = [row for row in rows if row.cut_records]
        if cut:
            row = cut[0]
            yield condition(
                "mirror-cut",
                f"{row.topic}-{row.partition}: {row.cut_records} records that the source lost were cut off"
                + (f", and in {len(cut) - 1} other partitions" if len(cut) > 1 else ""),
            )

    return probe


def mirror_metrics(found: MirrorsSource) -> Iterator[str]:
    """How far the partitions that this broker pulls are."""
    rows = [(labels(link=row.link, topic=row.topic, partition=row.partition), row) for row in found.rows()]
    told = [(tag, row) for tag, row in rows if row.lost_seconds is not None]
    yield samples("moldau_mirror_would_lose_seconds", [(tag, _seconds(row)) for tag, row in told])
    yield samples("moldau_mirror_behind_records", [(tag, row.behind) for tag, row in rows if row.behind >= 0])
    yield samples("moldau_mirror_cut_records_total", [(tag, row.cut_records) for tag, row in rows])
    yield samples("moldau_mirror_missed_records_total", [(tag, row.missed_records) for tag, row in rows])
    pulled = sorted(found.bytes_pulled().items())
    yield samples("moldau_mirror_bytes_total", [(labels(link=link), count) for link, count in pulled])


def _seconds(row: MirrorRow) -> float:
    return round(row.lost_seconds or 0.0, 3)
