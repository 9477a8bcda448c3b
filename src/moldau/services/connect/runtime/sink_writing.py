"""Writes runs into a sink: what cannot be converted or written is left out, where that is tolerated.

A record that becomes a dead letter is noted as such in the same transaction (sink_letters.py) before the
rest of its run is written, so that a run that comes again has the same rows.

A sink that refuses a batch and does not say which row gets the rows alone, each as a run of its own; they are
noted as such before. (Not so where transforms sent the records of a run to several topics in turn: a crash
in the middle of that repeats rows of this run under other numbers.)

A sink that keeps positions may store what an earlier `write` staged in any call. So a call that fails is not
repeated for it (Dropped: its task reads again from the positions), it may report rows of all runs since
the last flush, and their letters are written at once: before the position behind them can be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from confluent_kafka import TopicPartition as KafkaPartition

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.errors import BadRecord, BadRecords, ConnectError, Retriable
from moldau.connect.sink import Sink
from moldau.services.connect.runtime.dead_letters import Letter, LetterWriter
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.problems import ErrorPolicy, Problem, Stage, class_name
from moldau.services.connect.runtime.reading import Reading
from moldau.services.connect.runtime.sink_letters import SinkLetters
from moldau.services.connect.runtime.sink_member import Member, offset_of
from moldau.services.connect.runtime.sink_partitions import Run, SinkPartition

_ALONE_MAX = 100

Call = Callable[[Callable[[], Any]], Any]
CommitNotes = Callable[[Sequence["Work"], Callable[[Sequence["Work"], Member], None]], None]


class Dropped(Exception):
    """A sink failed that may have dropped with this run what it had staged: read it again."""

    def __init__(self, failed: Retriable) -> None:
        self.failed = failed
        super().__init__(str(failed))


@dataclass
class Work:
    """One run on its way."""

    run: Run
    partition: SinkPartition
    batches: list[Batch]
    letters: list[Letter] = field(default_factory=list)
    """Those that are not written yet."""
    pending: set[int] = field(default_factory=set)
    """Their offsets."""
    refused: set[int] = field(default_factory=set)
    """Offsets that the sink has reported; a call that is repeated reports them again."""


class SinkWriting:
    """Of one task."""

    def __init__(
        self,
        sink: Sink,
        reading: Reading,
        policy: ErrorPolicy,
        letter_writer: LetterWriter,
        letters: SinkLetters,
        metrics: TaskMetrics,
    ) -> None:
        self.policy = policy
        self._sink = sink
        self._reading = reading
        self._letter_writer = letter_writer
        self._letters = letters
        self._metrics = metrics
        self._current: Work | None = None
        self._repeats = True
        self._kept: dict[TopicPartition, list[Work]] = {}
        """Of a sink that keeps positions: runs since the last flush, where their rows may be letters yet."""

    def bind(self, call: Call, commit_notes: CommitNotes, once: Call, keeps: bool = True) -> None:
        """The task's ways to call the sink (`once`: Dropped instead of a repetition), and to commit notes.
        `keeps`: hold runs until `forget`."""
        self._call = call
        self._commit_notes = commit_notes
        self._once = once
        self._keeps = keeps and self.policy.tolerant and self._letter_writer.is_wanted

    @property
    def keeps_runs(self) -> bool:
        """Whether runs are held in memory until they are flushed."""
        return bool(self._kept)

    def forget(self) -> None:
        """All is flushed, or will be read again: then letters that were not written are not noted either."""
        for works in self._kept.values():
            for each in works:
                each.partition.notes.bad -= each.pending
        self._kept = {}

    def close(self) -> None:
        """Let go of converters, transforms and the producer of letters."""
        self._reading.close()
        self._letters.close()

    def prepare(self, run: Run, partition: SinkPartition) -> Work:
        """Convert. Failed: a record cannot be, and that is not tolerated."""
        if partition.notes.committed is None:
            partition.notes.committed = run.first
        bad = set(partition.notes.bad)
        work = Work(run, partition, [])
        while True:  # once more without the refused ones, so that batches are cut as when the run comes again
            messages = [each for each in run.messages if each.offset() not in bad] if bad else run.messages
            work.batches, problems = self._call_converters(run, messages)
            if not problems:
                break
            for each in problems:
                self._refuse(work, messages[each.row], each)
                bad.add(messages[each.row].offset())
        batches = work.batches
        numbers = [each.offsets[0].as_py() for each in batches if each.offsets is not None]
        if len(set(numbers)) != len(batches):
            raise ConnectError(
                "transforms made several batches that begin with one record, so that they cannot be told "
                "apart when they come again: let them go to one topic with one schema"
            )
        return work

    def _call_converters(self, run: Run, messages: Sequence[Any]) -> tuple[list[Batch], list[Problem]]:
        if not messages:
            return [], []
        made: tuple[list[Batch], list[Problem]] = self._call(
            lambda: self._reading.batches(run.origin, messages)
        )
        return made

    def _refuse(self, work: Work, message: Any, problem: Problem) -> None:
        self.policy.meet(
            problem, lambda: f"{message.topic()}-{message.partition()} at offset {message.offset()}"
        )
        if self._letter_writer.is_wanted:
            work.letters.append(self._letter_writer.of_message(message, problem))
            work.pending.add(message.offset())
            work.partition.notes.bad.add(message.offset())

    def note(self, works: Sequence[Work]) -> None:
        """Commit where these runs end, before they are written for the first time."""
        fresh = [each for each in works if not each.run.noted or each.letters]
        for each in fresh:
            if not each.run.noted:
                each.partition.notes.ends.append(each.run.end)
        self._commit(fresh)

    def note_letters(self, works: Sequence[Work]) -> None:
        """Of a sink that keeps positions: only what became a dead letter."""
        self._commit([each for each in works if each.letters])

    def _commit(self, works: Sequence[Work]) -> None:
        if works:
            self._commit_notes(works, self._commit_now)

    def _commit_now(self, works: Sequence[Work], member: Member) -> None:
        offsets: dict[Any, KafkaPartition] = {}
        for each in works:
            notes = each.partition.notes
            try:
                offsets[each.run.origin] = offset_of(each.run.origin, notes.committed, notes.text())
            except ValueError as error:
                raise ConnectError(
                    f"too many records of one run of {each.run.origin.topic} cannot be handled to be noted "
                    f"({error}): lower consumer.override.max.poll.records"
                ) from error
        letters = [letter for each in works for letter in each.letters]
        if letters:
            self._letters.commit(letters, list(offsets.values()), member.consumer.consumer_group_metadata())
            self._metrics.add("deadletterqueue-produce-requests", len(letters))
        else:
            member.commit(list(offsets.values()))
        for each in works:
            each.letters, each.pending = [], set()

    def write(self, work: Work, exact: bool) -> None:
        """All batches of a run; `exact`: of a sink that keeps no positions. Failed, ConnectError,
        SessionLost, Dropped."""
        self._current = work
        self._repeats = exact
        if self._keeps and not exact:
            self._kept.setdefault(work.run.origin, []).append(work)
        try:
            for batch in work.batches:
                if len(batch):
                    self._write(work, batch, exact)
        except Dropped:
            work.partition.notes.bad -= work.pending
            raise
        finally:
            self._current = None

    def _write(self, work: Work, batch: Batch, exact: bool) -> None:
        while len(batch):
            assert batch.offsets is not None
            number = batch.offsets[0].as_py()
            try:
                call = self._call if self._repeats else self._once
                call(partial(self._sink.write, batch, number))
            except BadRecord as refused:
                found = refused.rows if isinstance(refused, BadRecords) else [(refused.index, str(refused))]
                rows = {row: reason for row, reason in found if row is not None and 0 <= row < len(batch)}
                if not rows and len(batch) == 1:
                    rows = {0: str(refused)}
                if not rows:
                    self._alone(work, batch, refused, exact)
                    return
                for row, reason in rows.items():
                    self.bad_record(batch, row, BadRecord(reason, row))
                batch = batch.take([row for row in range(len(batch)) if row not in rows])
                self._settle(work)
            else:
                self._settle(work)
                return

    def bad_record(self, batch: Batch, row: int, error: Exception) -> None:
        """A sink reports a row (SinkContext.bad_record). Failed where that is not tolerated."""
        assert batch.offsets is not None
        offset = batch.offsets[row].as_py()
        problem = Problem(row, Stage.TASK_PUT, class_name(self._sink), error)
        work, message = self._found(batch.origin, offset)
        if work is None:
            self._refuse_of_the_past(batch.origin, offset, problem)
            return
        if offset not in work.refused:
            self._refuse(work, message, problem)
            work.refused.add(offset)
        if not self._repeats:
            self._settle(work)

    def _found(self, origin: TopicPartition | None, offset: int) -> tuple[Work | None, Any]:
        """The run that has this record, and the message."""
        works = list(self._kept.get(origin, ())) if origin is not None else []
        if self._current is not None and self._current.run.origin in (origin, None):
            works.append(self._current)
        for work in works:
            if work.run.first <= offset < work.run.end:
                for message in work.run.messages:
                    if message.offset() == offset:
                        return work, message
        return None, None

    def _refuse_of_the_past(self, origin: TopicPartition | None, offset: int, problem: Problem) -> None:
        """A row of a run that is not held: it can fail the task or be left out, but become no letter."""
        if self.policy.tolerant and self._letter_writer.is_wanted:
            raise ConnectError(
                f"{class_name(self._sink)} refuses offset {offset} of a run that is over: bad records are "
                "reported from write"
            ) from problem.error
        place = "?" if origin is None else f"{origin.topic}-{origin.partition}"
        self.policy.meet(problem, lambda: f"{place} at offset {offset}")

    def _settle(self, work: Work) -> None:
        """Write the letters of rows that the sink refused."""
        if work.letters:
            self._commit([work])

    def _alone(self, work: Work, batch: Batch, refused: BadRecord, exact: bool) -> None:
        """One row after another: the sink does not say which it refuses."""
        if not self.policy.tolerant:
            self.bad_record(batch, 0, refused)
        notes = work.partition.notes
        exact = exact and _follow_one_another(work.batches)
        for part in batch.split(_ALONE_MAX):
            assert part.offsets is not None
            offsets = part.offsets.to_pylist()
            if exact:
                self._once(self._sink.flush)
                notes.advance(offsets[0])
                notes.ends = sorted({*notes.ends, *(each + 1 for each in offsets)})
                self._commit([work])
            for row in part.split(1):
                self._write(work, row, exact)
        if exact:
            self._once(self._sink.flush)
            notes.advance(offsets[-1] + 1)
            self._commit([work])


def _follow_one_another(batches: Sequence[Batch]) -> bool:
    """Whether each batch's records lie behind those of the batch before."""
    offsets = [each.offsets for each in batches if each.offsets is not None and len(each)]
    return all(one[-1].as_py() < other[0].as_py() for one, other in pairwise(offsets))
