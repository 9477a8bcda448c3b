"""A sink: writes a topic's records to another system, each once where that system can remember a number.

    class Printer(Sink):
        def write(self, batch, number):
            for row in rows(batch): print(row)

`write` gets a run of consecutive records of one topic partition. `number` is that run's first offset: after
a crash the same run comes again with the same number and the same records (the worker notes its end before
the first attempt, in the metadata of the group's committed offset), so that a target which keeps (topic,
partition, number) can leave out what it has. A sink whose target keeps positions itself returns them in
`positions`, and is asked for nothing else: reading starts there.

`flush` makes all that was written lasting; only then the worker commits offsets in Kafka.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.settings import Setting


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a worker tells a sink when it starts it."""

    connector: str
    task: int
    stopping: Callable[[], bool]
    wait: Callable[[float], bool]
    """Sleep that many seconds, or until stopping; returns `stopping()`."""
    bad_record: Callable[[Batch, int, Exception], None]
    """Report row `index` of a batch as one that cannot be written, and go on without it (raises where
    `errors.tolerance` is none). From `write`; a sink that keeps positions may do so from `flush`, before
    it stores the position behind the row."""


class Sink(ABC):
    """Base of sinks. Made anew for each start, once a task, used by one thread."""

    settings: ClassVar[Sequence[Setting]] = ()
    version: ClassVar[str] = "1"
    keeps_open: ClassVar[bool] = False
    """`flush` may leave records that are read again from `positions` after a stop: only an engine that goes
    back there (local) can run it."""
    gains_on_spark: ClassVar[bool] = False
    """Several processes, on several machines, may write at a time, and it is the faster for it: with
    `moldau.connect.engine=auto` it moves to Spark while there is much to do."""

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Open what is needed. `settings`: the values of the rows above, typed; others as texts."""
        self.config = settings
        self.context = context

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """The next offset of each of these partitions that the target has by itself; None: it keeps none.

        A partition that is not in the answer begins where the group's committed offset is. Asked at the
        start of a partition, and after `write` or `flush` were Retriable: what was staged is to be dropped by
        then, since all behind the answer is written again.
        """
        return None

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """An administrator has set the connector's offsets (KIP-875); None: forgotten. The target follows."""
        if self.positions(list(positions)) is not None:
            raise NotImplementedError(f"{type(self).__name__} keeps positions and cannot set them")

    def opened(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027
        """These partitions are this task's from now on, in addition to those it has."""

    def closed(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027
        """These are not any more; all that was written of them is flushed."""

    @abstractmethod
    def write(self, batch: Batch, number: int) -> None:
        """Write, or stage for `flush`, these records of `batch.origin`. Retriable, BadRecord,
        ConnectError.

        After Retriable this run alone is written again; where the sink keeps positions, all behind them.
        """

    def flush(self) -> None:  # noqa: B027
        """Make lasting what was written. Retriable: the worker goes back to what is committed and writes
        again."""

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """What is wrong with settings that are valid one by one: name -> sentences. For `validate`; may
        connect."""
        return {}

    def stop(self) -> None:  # noqa: B027
        """Let go of everything; called once, also after a failure."""
