"""When a sink with `moldau.connect.engine=auto` moves to Spark, and back. A pure machine.

                  above 1.5 x the limit for 30 s
       local  ──────────────────────────────────>  spark
              <──────────────────────────────────
                  below 0.5 x the limit for 300 s

What counts is what there is to do: records that came since the last look, and a minute's part of the lag. A
look that is missed (the cluster did not answer) begins the waiting anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.services.connect.runtime.engines import LOCAL, SPARK, Engine

UP, DOWN = 1.5, 0.5
UP_MS, DOWN_MS = 30_000.0, 300_000.0
_LAG_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in the topics at one time, over all partitions."""

    at_ms: float
    ends: int
    """The sum of the offsets behind the last records."""
    lag: int
    """How many of the records are not written yet."""
    partitions: int


class EngineChoice:
    """Of one connector."""

    def __init__(self, records: int, engine: Engine) -> None:
        """`records`: the limit, a second; `engine`: what runs it now."""
        self.engine = engine
        self._records = records
        self._before: Look | None = None
        self._since_ms: float | None = None
        """Since when there has been so much, or so little, that it should move."""

    def missed(self) -> None:
        """The topics were not looked at."""
        self._before = self._since_ms = None

    def looked(self, look: Look) -> Engine:
        """The engine from now on."""
        before, self._before = self._before, look
        if before is None or look.at_ms <= before.at_ms:
            return self.engine
        came = max(look.ends - before.ends, 0) * 1000 / (look.at_ms - before.at_ms)
        demand = came + look.lag / _LAG_SECONDS
        to_spark = self.engine.name == LOCAL
        is_wanted = (
            look.partitions > 1 and demand > self._records * UP
            if to_spark
            else look.partitions < 2 or demand < self._records * DOWN
        )
        if not is_wanted:
            self._since_ms = None
            return self.engine
        if self._since_ms is None:
            self._since_ms = before.at_ms
        if look.at_ms - self._since_ms >= (UP_MS if to_spark else DOWN_MS):
            self._since_ms = None
            self.engine = Engine(SPARK if to_spark else LOCAL, self._why(demand, look, to_spark))
        return self.engine

    def _why(self, demand: float, look: Look, to_spark: bool) -> str:
        said = f"auto: {demand:.0f} records a second to move in {look.partitions} partitions"
        if to_spark:
            return f"{said}, more than {self._records * UP:g} for {UP_MS / 1000:g} s"
        if look.partitions < 2:
            return f"{said}: one partition gains nothing"
        return f"{said}, less than {self._records * DOWN:g} for {DOWN_MS / 1000:g} s"
