"""A source: reads from another system, knows where it stands, and starts there again.

    class Weather(Source):
        settings = [Setting("url", SettingType.STRING, "Where the forecasts are.")]

        def partitions(self):
            return [{"city": "Prague"}, {"city": "Brno"}]

        def read(self, partition, offset):
            ...
            yield Read(batch, {"hour": 17})

The worker distributes partitions over tasks, and for each it runs `read` in a task's thread. Records and the
offset
that came with them are committed in one Kafka transaction, so a source that answers the same for the same
offset
delivers each record once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from moldau.connect.batch import Batch
from moldau.connect.settings import Setting

SourcePartition: TypeAlias = Mapping[str, Any]
"""What is read independently of the rest (a file, a table, a slot); JSON. The key of its offset in Kafka."""
SourceOffset: TypeAlias = Mapping[str, Any]
"""Where a partition's reading stands; JSON."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that cannot be made of what the other system has: `errors.tolerance` decides, as for a record
    that a converter refuses (fail, leave out, dead letter)."""

    batch: Batch
    """One record, as far as there is one: the topic it was meant for, key and value without a schema."""
    error: Exception
    """Says what cannot be what, where, and which setting helps."""


@dataclass(frozen=True, slots=True)
class Read:
    """Records, and where reading goes on after them. An empty tuple moves the offset alone."""

    batches: Sequence[Batch]
    offset: SourceOffset
    ends_transaction: bool = True
    """False: what follows belongs to the same transaction (`transaction.boundary=connector`)."""
    refused: Sequence[Refused] = ()
    """What else was read, and is no record; `offset` is behind these, too."""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a worker tells a source when it starts it."""

    connector: str
    task: int | None
    """None: the instance that only lists partitions."""
    stopping: Callable[[], bool]
    """True: `read` shall return soon."""
    wait: Callable[[float], bool]
    """Sleep that many seconds, or until stopping; returns `stopping()`."""
    partitions_changed: Callable[[], None]
    """Ask for `partitions()` to be looked at again now (it is also asked from time to time)."""


class Source(ABC):
    """Base of sources. Made anew for each start: settings are checked (and typed) by then."""

    settings: ClassVar[Sequence[Setting]] = ()
    version: ClassVar[str] = "1"
    exactly_once: ClassVar[bool] = True
    """`read(partition, offset)` gives the same records for the same offset, or none twice."""

    ends_transactions: ClassVar[bool] = False
    """`Read.ends_transaction` says where a transaction ends: records before it are not to be seen without
    those
    after. `transaction.boundary` is then `connector`, unless a configuration says otherwise."""

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """Open what is needed. `settings`: the values of the rows above, typed; others as texts."""
        self.config = settings
        self.context = context

    @abstractmethod
    def partitions(self) -> Sequence[SourcePartition]:
        """What there is to read now. Asked again every `poll.interval`; a change distributes tasks anew."""

    @abstractmethod
    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """Yield what comes after `offset` (None: from the beginning); None says: nothing now, go on later.

        When the iterator ends, the worker calls again later with the last offset. An iterator that is closed
        (GeneratorExit) gives up what it holds.
        """

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:  # noqa: B027
        """This offset and all records before it are committed in Kafka: the other system may forget them."""

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """What is wrong with settings that are valid one by one: name -> sentences. For `validate`; may
        connect."""
        return {}

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:  # noqa: B027
        """Refuse offsets that an administrator sets (KIP-875). ConnectError with the reason."""

    def stop(self) -> None:  # noqa: B027
        """Let go of everything; called once, also after a failure."""
