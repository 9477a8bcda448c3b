"""The numbers of a flow: Spark's reports after each micro-batch, added up.

Spark reports for each micro-batch the rows read, the duration, and the position and end of each source; rows
written are counted on their way out (`counted`), since Spark does not report them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

OUT = "moldau_out"
RUNS_KEPT = 8


def counted(rows: DataFrame) -> DataFrame:
    """The same rows, counted in Spark's report."""
    from pyspark.sql import functions as F

    return rows.observe(OUT, F.count(F.lit(1)).alias("rows"))


@dataclass
class FlowNumbers:
    """A flow's numbers since this driver started it."""

    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    batch_id: int | None = None
    batch_ms: int | None = None
    rows_per_second: float = 0.0
    lag: int | None = None
    """Records that were there and not read when the last micro-batch began."""
    watermark: str = ""
    rows_dropped_late: int = 0
    state_rows: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict, repr=False)
    """The last micro-batch taken in, of the query's last runs: reports of a run come in order."""

    def add(self, progress: Any) -> bool:
        """Add a report (pyspark's StreamingQueryProgress); returns whether a micro-batch was completed."""
        run, number = str(progress.runId), int(progress.batchId)
        self.watermark = dict(progress.eventTime or {}).get("watermark", self.watermark)
        self._add_lag(progress)
        if number <= self._newest.get(run, -1) or "addBatch" not in progress.durationMs:
            return False
        self._newest[run] = number
        if len(self._newest) > RUNS_KEPT:
            del self._newest[next(iter(self._newest))]
        self.batches += 1
        self.batch_id = number
        self.batch_ms = int(progress.durationMs.get("triggerExecution", 0))
        self.rows_in += max(int(progress.numInputRows), 0)
        self.rows_per_second = float(progress.processedRowsPerSecond or 0.0)
        counts = (progress.observedMetrics or {}).get(OUT)
        self.rows_out += int(counts["rows"]) if counts is not None else 0
        self.rows_dropped_late += sum(int(each.numRowsDroppedByWatermark) for each in progress.stateOperators)
        self.state_rows = sum(int(each.numRowsTotal) for each in progress.stateOperators)
        return True

    def _add_lag(self, progress: Any) -> None:
        lags = [
            lag for each in progress.sources if (lag := lag_of(each.endOffset, each.latestOffset)) is not None
        ]
        if lags:
            self.lag = sum(lags)


def lag_of(end: str | None, latest: str | None) -> int | None:
    """Records between two positions as Spark reports them, such as {"flights": {"0": 12}}."""
    from pyspark_moldau.behind_latest import behind_by_partition

    behind = behind_by_partition(end, latest)
    return None if behind is None else sum(behind.values())


def take_last(numbers: FlowNumbers, query: StreamingQuery) -> None:
    """Add the newest reports of a query that has ended; events may still be under way."""
    for progress in query.recentProgress:
        numbers.add(progress)
