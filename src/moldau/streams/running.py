"""One flow that runs: its query, what became of it, and what to do when it fails.

    waiting -> running -> done                      with once=True, when all is read
                       -> stopped                   asked to
                       -> restarting -> running     failed, and another attempt may help
                       -> failed                    failed RESTARTS_MAX times without a micro-batch between
                       -> fenced                    another driver has taken over

The policy: a flow that fails is started again from its checkpoint, after 1, 2, 4 ... 30 seconds, because
most of what goes wrong passes; while no broker or registry answers that goes on for ever, on a machine that
is too busy to start a Python worker twenty times, else three times. What then still fails is left stopped,
with its name and reason, and the app's other flows go on: they have nothing to do with it. The app ends with
that failure in its exit code.

A query is stopped between two micro-batches. Spark's own stop() interrupts whatever runs; so each
micro-batch of a flow that is to stop waits in `_gate`, before it writes anything, for the interruption: the
one before it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.streams.failures import Cure, cure_of, sentence
from moldau.streams.flow import Output
from moldau.streams.progress import FlowNumbers, counted, take_last

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from moldau.streams.flow import Flow
    from moldau.streams.places import Place

RESTARTS_MAX = 3
PATIENT_RESTARTS_MAX = 20
_ATTEMPTS_MAX = {Cure.AGAIN: RESTARTS_MAX, Cure.PATIENCE: PATIENT_RESTARTS_MAX}
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
PARKED_MS = 3_600_000


class RunningFlow:
    """A flow in a driver: its query and its state."""

    def __init__(
        self,
        flow: Flow,
        rows: DataFrame,
        place: Place,
        checkpoint: str,
        *,
        once: bool,
        look: Callable[[], None],
        query_name: str | None = None,
    ) -> None:
        """`look` is called before each micro-batch, and raises Fenced if this driver must not write."""
        self.query_name = query_name or flow.group
        self.flow = flow
        self.state = "waiting"
        self.numbers = FlowNumbers()
        self.reason = ""
        self._rows, self._place, self._checkpoint = rows, place, checkpoint
        self._once = once
        self._look = look
        self._query: StreamingQuery | None = None
        self._stopping = self._parked = False
        self._attempts = 0
        self._batches_at_start = 0
        self._again_at = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it will not run again."""
        return self.state in ("done", "stopped", "failed", "fenced")

    def start(self) -> None:
        """Start the query, from its checkpoint if it has one."""
        self._batches_at_start = self.numbers.batches
        try:
            self._query = self._start()
            self.state = "running"
        except Exception as failure:
            self._failed(failure)

    def _start(self) -> StreamingQuery:
        from moldau.streams.encoding import encoded

        flow, output = self.flow, self.flow.output
        if isinstance(output, Output):
            records, write = encoded(self._rows, output), self._place.writer(flow, output)
        else:
            records, write = self._rows, output

        def one_batch(batch: DataFrame, batch_id: int) -> None:
            self._gate(batch)
            write(batch, batch_id)

        writer = (
            counted(records)
            .writeStream.queryName(self.query_name)
            .outputMode(flow.output_mode(self._rows))
            .option("checkpointLocation", self._checkpoint)
            .foreachBatch(one_batch)
        )
        if self._once:
            writer = writer.trigger(availableNow=True)
        elif flow.trigger is not None:
            writer = writer.trigger(processingTime=flow.trigger)
        return writer.start()

    def _gate(self, batch: DataFrame) -> None:
        """Called before a micro-batch writes: raise or wait if it must not."""
        self._look()
        if self._stopping:
            self._parked = True
            # On the query's own thread in Java, which stop() interrupts: to Spark this is an orderly end.
            batch.sparkSession._jvm.java.lang.Thread.sleep(PARKED_MS)  # type: ignore[union-attr]

    @property
    def doing(self) -> str:
        """The query's status message; "" if it does not run."""
        if self.state != "running" or self._query is None:
            return ""
        return str(self._query.status["message"])

    @property
    def is_at_work(self) -> bool:
        """Whether a micro-batch is under way, or the query is being started."""
        if self.state != "running" or self._query is None:
            return False
        status = self._query.status
        begins = str(status["message"]).startswith("Initializing")
        return begins or (bool(status["isTriggerActive"]) and bool(status["isDataAvailable"]))

    def poll(self, now: float) -> None:
        """Check the query, and restart it when it is time."""
        if self.state == "restarting" and now >= self._again_at:
            self.start()
        if self.state != "running" or self._query is None or self._query.isActive:
            return
        take_last(self.numbers, self._query)
        failure = self._query.exception()
        if failure is None:
            self.state = "done" if self._once and not self._stopping else "stopped"
        else:
            self._failed(failure)

    def _failed(self, failure: BaseException) -> None:
        self.reason = sentence(failure)
        cure = cure_of(failure)
        if cure is Cure.NONE:
            self.state = "fenced"
            return
        self._attempts = 0 if self.numbers.batches > self._batches_at_start else self._attempts
        self._attempts += 1
        if self._stopping or self._attempts > _ATTEMPTS_MAX.get(cure, self._attempts):
            self.state = "failed"
            return
        self.state = "restarting"
        pause = PAUSES_SECONDS[min(self._attempts, len(PAUSES_SECONDS)) - 1]
        self._again_at = time.monotonic() + pause

    def process_all(self) -> None:
        """Wait until everything that is there now is read; raises the query's failure."""
        if self._query is not None:
            self._query.processAllAvailable()

    def ask_to_stop(self) -> None:
        """Stop after the running micro-batch."""
        self._stopping = True
        if self.state in ("waiting", "restarting"):
            self.state = "stopped"

    def stop_if_idle(self) -> bool:
        """Stop the query if no micro-batch runs; returns whether it has ended."""
        if self.state == "running" and self._query is not None and self._query.isActive:
            status = self._query.status
            if not self._parked and (status["isTriggerActive"] and status["isDataAvailable"]):
                return False
        self.stop_now()
        return True

    def stop_now(self, state: str = "stopped") -> None:
        """Stop the query at once."""
        self._stopping = True
        if self._query is not None and self._query.isActive:
            self._query.stop()
        if self._query is not None:
            take_last(self.numbers, self._query)
        if not self.is_over:
            self.state = state
