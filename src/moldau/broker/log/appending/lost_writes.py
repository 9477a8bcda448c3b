"""Producers whose batches were just refused, to be sent again, so that those behind them are refused alike.
The disk was full; or the log takes nothing for a moment, because it changes its directory or its end was cut;
or this broker has not heard yet that it leads the partition (its clients have), or that enough replicas are
in sync.

A producer has several batches under way. The disk refuses the first (KAFKA_STORAGE_ERROR, to be sent again),
and the second arrives before the first comes again. Judged by its number it leaves a gap, but
OUT_OF_ORDER_SEQUENCE_NUMBER would be the wrong answer: for clients it means that records may be missing.
librdkafka then takes a new epoch, and sends what is unanswered a second time under it, where it lies twice:
in other partitions; and in this one what its former leader had written, and could not acknowledge any more. A
producer that is not known yet would even be accepted, and its first batch refused.

So what lies behind a refused batch gets the same answer, until its producer has written all that was refused:
the first may be here again while the second is on its way, and the third must not overtake that. Who gives a
refused batch up would wait for ever: a producer is forgotten `REMEMBERED_MS` after the first batch that was
judged so.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.broker.log.appending.batch_error import BatchError
from moldau.broker.log.state.producers import ProducerBatch, ProducerState
from moldau.common.protocol.errors import ErrorCode

REMEMBERED_MS = 30_000
PRODUCERS_MAX = 10_000
_HALF = 1 << 30
_NUMBERS = (1 << 31) - 1


class LostBatch(NamedTuple):
    """The first batch of a producer that was refused and has not come again, the last one that was, and when
    one behind the first was judged for the first time (-1: none).
    """

    producer_epoch: int
    base_sequence: int
    last_refused: int
    judged_ms: int = -1


def _is_behind(sequence: int, other: int) -> bool:
    return 0 < ((sequence - other) & _NUMBERS) < _HALF


class LostWrites:
    """By producer id. Empty on a log whose writes succeed."""

    __slots__ = ("_lost",)

    def __init__(self) -> None:
        self._lost: dict[int, LostBatch] = {}

    def __bool__(self) -> bool:
        return bool(self._lost)

    def note(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """This batch was refused."""
        known = self._lost.get(producer_id)
        if known is None or known.producer_epoch != producer_epoch:
            if len(self._lost) >= PRODUCERS_MAX:
                self._lost.clear()
            self._lost[producer_id] = LostBatch(producer_epoch, base_sequence, base_sequence)
        elif _is_behind(base_sequence, known.last_refused):
            self._lost[producer_id] = known._replace(last_refused=base_sequence)

    def note_states(self, states: Iterable[tuple[int, ProducerState | None]], end_offset: int) -> None:
        """These states are taken back: the batches from `end_offset` on are refused."""
        for producer_id, state in states:
            for batch in () if state is None else state.batches:
                if batch.base_offset >= end_offset and state is not None:
                    self.note(producer_id, state.producer_epoch, batch.base_sequence)

    def written(self, producer_ids: Iterable[int], states: Mapping[int, ProducerState]) -> None:
        """These producers have written again, and have these states now."""
        for producer_id in producer_ids:
            lost, state = self._lost.pop(producer_id, None), states.get(producer_id)
            if (
                lost is not None
                and state is not None
                and state.producer_epoch == lost.producer_epoch
                and _is_behind(lost.last_refused, state.last_sequence)
            ):
                following = (state.last_sequence + 1) & _NUMBERS
                self._lost[producer_id] = lost._replace(base_sequence=following)

    def judge(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        verdict: BatchError | ProducerBatch | None,
        now_ms: int,
    ) -> BatchError | ProducerBatch | None:
        """The verdict, or for a batch behind a refused one the refusal to send it again."""
        lost = self._lost.get(producer_id)
        if lost is None or lost.producer_epoch != producer_epoch:
            return verdict
        gap = isinstance(verdict, BatchError) and verdict.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not _is_behind(base_sequence, lost.base_sequence) or not (gap or verdict is None):
            return verdict
        if lost.judged_ms < 0:
            self._lost[producer_id] = lost._replace(judged_ms=now_ms)
        elif now_ms - lost.judged_ms > REMEMBERED_MS:
            del self._lost[producer_id]
            return verdict
        self.note(producer_id, producer_epoch, base_sequence)
        return BatchError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"sequence {lost.base_sequence} of producer {producer_id} comes first, and could not be written",
        )
