"""A source partition, a copy, and the machine between them, without brokers: one record a batch."""

from __future__ import annotations

from typing import NamedTuple

from moldau.broker.mirror import outputs as out
from moldau.broker.mirror.machine import Ends, EpochEnd, Machine, State
from moldau.common.protocol.errors import ErrorCode


class Row(NamedTuple):
    offset: int
    epoch: int
    value: int


class Log:
    """Records by offset; gaps are allowed."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.rows: list[Row] = []

    def append(self, row: Row) -> None:
        assert row.offset >= self.end
        assert not self.rows or row.epoch >= self.rows[-1].epoch
        self.rows.append(row)
        self.end = row.offset + 1

    def truncate(self, offset: int) -> None:
        self.rows = [row for row in self.rows if row.offset < offset]
        self.end = min(self.end, offset)
        self.start = min(self.start, self.end)

    def delete_to(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))
        self.rows = [row for row in self.rows if row.offset >= self.start]

    def begin_at(self, offset: int) -> None:
        self.rows, self.start, self.end = [], offset, offset

    def ends(self) -> Ends:
        return Ends(self.start, self.end, self.rows[-1].epoch if self.rows else -1)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """As a leader epoch cache answers."""
        epochs = sorted({row.epoch for row in self.rows})
        if not epochs or epoch < 0 or epoch > epochs[-1]:
            return EpochEnd(-1, -1)
        if epoch == epochs[-1]:
            return EpochEnd(epoch, self.end)
        known = [each for each in epochs if each <= epoch]
        later = min(row.offset for row in self.rows if row.epoch > epoch)
        return EpochEnd(known[-1] if known else epoch, later)


class Model:
    """Carries out what the machine asks for, a step at a time."""

    def __init__(self, *, has_epochs: bool = True) -> None:
        self.source, self.copy = Log(), Log()
        self.machine = Machine()
        self.has_epochs = has_epochs
        self.source_epoch = 0
        self.own_epoch = 0
        self.leader = 1
        self.now_ms = 0.0
        self.todo: list[out.Output] = [out.FindLeader()]
        self.faults: list[str] = []
        self.started = 0
        self.steps = 0
        self.values = 0

    # The source

    def write(self, count: int = 1, gap: int = 0) -> None:
        for _ in range(count):
            self.values += 1
            self.source.append(Row(self.source.end + gap, self.source_epoch, self.values))
            gap = 0

    def elect(self, lost: int = 0) -> None:
        """Another leader; it lacks so many of the last records."""
        self.source.truncate(max(self.source.start, self.source.end - lost))
        self.source_epoch += 1
        self.leader = 3 - self.leader

    # The machine's shell

    def settle(self, steps_max: int = 200) -> None:
        """Until the copy is level, or stands still with a fault."""
        for _ in range(steps_max):
            self.step()
            level = self.copy.ends() == self.source.ends() and not self.todo
            if (level and self.machine.state is State.FETCHING) or self.faults:
                return
        raise AssertionError(f"not level: {self.machine.state}, {self.copy.ends()}, {self.source.ends()}")

    def step(self) -> None:
        self.steps += 1
        machine = self.machine
        if self.todo:
            self._do(self.todo.pop(0))
        elif machine.state is State.FETCHING:
            self._fetch()
        else:
            self.now_ms += 1000
            self.todo += machine.tick(self.now_ms)

    def _do(self, output: out.Output) -> None:
        machine, copy = self.machine, self.copy
        if isinstance(output, out.FindLeader):
            if self.has_epochs:
                self.own_epoch = max(self.own_epoch, self.source_epoch)
            known = self.source_epoch if self.has_epochs else -1
            self.todo += machine.led_by(self.leader, known, copy.ends())
        elif isinstance(output, out.AskOffsets):
            if machine.leader == self.leader:
                self.todo += machine.offsets(self.source.start, self.source.end, copy.ends())
            else:
                self.todo += machine.leader_lost("not the leader", self.now_ms)
        elif isinstance(output, out.AskEpochEnd):
            self._epoch_end(output.leader_epoch)
        elif isinstance(output, out.AskLast):
            own = copy.rows[-1] if copy.rows else None
            there = None if own is None else {row.offset: row for row in self.source.rows}.get(own.offset)
            same = None if own is None or there is None else there.value == own.value
            self.todo += machine.last_is(same, -1 if own is None else own.offset)
        elif isinstance(output, out.Truncate):
            copy.truncate(output.offset)
            self.todo += machine.cut_done(copy.ends())
        elif isinstance(output, out.BeginAt):
            copy.begin_at(output.offset)
            self.todo += machine.cut_done(copy.ends())
        elif isinstance(output, out.RaiseEpoch):
            self.own_epoch = max(self.own_epoch, output.leader_epoch)
            self.todo += machine.epoch_is(self.own_epoch)
        elif isinstance(output, out.Started):
            self.started += 1
        else:
            assert isinstance(output, out.Fault)
            self.faults.append(output.reason)

    def _epoch_end(self, epoch: int) -> None:
        machine, copy = self.machine, self.copy
        if machine.leader != self.leader:
            self.todo += machine.leader_lost("not the leader", self.now_ms)
        elif not self.has_epochs:
            self.todo += machine.epochs_refused(copy.ends())
        else:
            told = self.source.epoch_end(epoch)
            own = copy.epoch_end(told.leader_epoch if told.end_offset >= 0 else epoch)
            earlier = [row.epoch for row in copy.rows if row.epoch < epoch]
            self.todo += machine.epoch_end(epoch, told, own, earlier[-1] if earlier else -1, copy.ends())

    def _fetch(self) -> None:
        machine, source, copy = self.machine, self.source, self.copy
        self.now_ms += 10
        machine.asked(copy.end, self.now_ms)
        code = 0
        if machine.leader != self.leader:
            code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self.has_epochs and machine.source_epoch != self.source_epoch:
            code = int(ErrorCode.FENCED_LEADER_EPOCH)
        elif not source.start <= copy.end <= source.end:
            code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
        outputs = machine.fetched(code, source.end, source.start, memoryview(b""), copy.ends(), self.now_ms)
        for output in outputs:
            if isinstance(output, out.Append):
                rows = [row for row in source.rows if row.offset >= copy.end][:3]
                taken = [row for row in rows if row.epoch <= self.own_epoch]
                for row in taken:
                    copy.append(row)
                copy.delete_to(source.start)
                left = rows[len(taken) :]
                self.todo += machine.appended(copy.ends(), left[0].epoch if left else -1, self.own_epoch)
            else:
                self.todo.append(output)
