"""The fetch machine, driven by random inputs: what it tells the leader, and when it sends."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.replication.fetch_session import Targets, targets_of, update
from moldau.broker.replication.following.fetch_machine import FetchMachine
from moldau.broker.replication.following.fetch_outputs import Append, FindStart, Output, Restart, Truncate
from moldau.broker.replication.following.followed import FetchState, Followed
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.following.out_of_range import NewStart
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchRequest
from moldau.common.protocol.replica_fetch import FetchedRow

LEADER = 2
LIMITS = FetchLimits(500, 1, 1000, 100)
TOPIC = b"t" * 16


class World:
    """A machine, the leader's session, and what of the machine's outputs is still to be done."""

    def __init__(self, seed: int, incremental: bool) -> None:
        self.draw = random.Random(seed)
        self.incremental = incremental
        self.exceeded = False
        self.now_ms = 0.0
        self.partitions: list[Any] = [
            SimpleNamespace(
                topic="t",
                topic_id=TOPIC,
                index=index,
                log=SimpleNamespace(latest_leader_epoch=0, log_start_offset=0),
                log_start_saved=None,
            )
            for index in range(6)
        ]
        self.machine = FetchMachine(
            LEADER,
            self.draw,
            pause_ms_max=lambda: 400,
            must_wait=lambda partition: self.exceeded and partition.index % 2 == 0,
            incremental=incremental,
        )
        self.targets: Targets = {}
        self.pending: dict[Followed, Output] = {}

    def states(self, *wanted: FetchState) -> set[int]:
        return {each.partition.index for each in self.machine.all() if each.state in wanted}

    def step(self) -> None:
        """One random input."""
        draw, machine = self.draw, self.machine
        partition = draw.choice(self.partitions)
        match draw.randrange(8):
            case 0:
                machine.follow(partition, FetchFrom(LEADER, draw.randint(0, 3), draw.randint(0, 50)))
            case 1 if draw.random() < 0.3:
                machine.stop(partition)
            case 2:
                self.exceeded = not self.exceeded
            case 3:
                self.now_ms += draw.choice((1, 60, 200))
                machine.tick(self.now_ms)
            case 4 if self.pending:
                self.finish(draw.choice(list(self.pending)))
            case 5:
                followed = machine.find(TOPIC, partition.index)
                if followed is not None:
                    machine.ask_again(followed)
            case _:
                self.exchange()

    def exchange(self) -> None:
        """A request, if one is due, and its answer."""
        draw, machine = self.draw, self.machine
        machine.tick(self.now_ms)
        if not machine.may_request(self.now_ms):
            return
        if self.exceeded:
            machine.hold_back()
        begun = machine.request(LIMITS, 500)
        if begun is None:
            return
        request, changed = begun
        for followed in changed:
            machine.row_asked(followed, request, LIMITS)
        if not machine.session_told():
            return
        if draw.random() < 0.1:
            machine.request_failed("lost on its way", self.now_ms)
            return
        self.take(FetchRequest.decode(request.encode(17), 17))
        fetched = self.states(FetchState.FETCHING)
        assert {index for _, index in self.targets} == fetched, "asked for is exactly what is to be fetched"
        assert not self.states(FetchState.STORING), "the request waits for what is being stored"
        if draw.random() < 0.1:
            if not machine.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
                machine.request_failed("refused", self.now_ms)
            return
        if draw.random() < 0.3:  # while the request was under way
            machine.follow(draw.choice(self.partitions), FetchFrom(LEADER, 1, draw.randint(0, 50)))
        machine.answered()
        for (topic_id, index), target in self.targets.items():
            row = machine.asked(topic_id, index)
            if row is not None:
                assert tuple(row.position) == (target.leader_epoch, target.offset), "a row of what is wanted"
                self.row(row)
        machine.session_answered(7 if self.incremental and draw.random() < 0.9 else 0)

    def take(self, request: FetchRequest) -> None:
        """As the leader does (fetch_session.py)."""
        rows = [
            (row.partition, row.current_leader_epoch, row.fetch_offset, 0, 0, row.partition_max_bytes)
            for topic in request.topics
            for row in topic.partitions
        ]
        forgotten = [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
        if request.session_epoch > 0:
            update(self.targets, [(TOPIC, rows)], forgotten)
        else:
            self.targets = targets_of([(TOPIC, rows)])

    def row(self, followed: Followed) -> None:
        draw, row = self.draw, FetchedRow(followed.partition.index)
        match draw.randrange(6):
            case 0:
                errors = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                row = row._replace(error_code=draw.choice(errors))
            case 1:
                diverging = (0, draw.randint(0, 40))
                row = row._replace(diverging=diverging, log_start_offset=draw.choice((-1, 20)))
            case _:
                row = row._replace(records=b"records")
        self.note(self.machine.row(followed, row, 10, self.now_ms))

    def note(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            if isinstance(output, Append | Truncate | Restart | FindStart):
                self.pending[output.followed] = output

    def finish(self, followed: Followed) -> None:
        """An output was carried out, or could not be."""
        draw, machine, output = self.draw, self.machine, self.pending.pop(followed)
        goes_well = draw.random() < 0.6
        if isinstance(output, FindStart):
            start = NewStart(draw.randint(0, 40), draw.random() < 0.5) if goes_well else None
            self.note(machine.start_found(followed, output.position, start, self.now_ms))
        elif goes_well:
            if followed.is_followed:
                epoch = followed.position.leader_epoch
                machine.follow(followed.partition, FetchFrom(LEADER, epoch, draw.randint(0, 50)))
        elif isinstance(output, Append):
            machine.append_failed(followed, draw.choice((None, "damaged")), self.now_ms)
        elif isinstance(output, Truncate):
            machine.not_truncated(output, self.now_ms)
        elif isinstance(output, Restart):
            machine.not_restarted(followed, self.now_ms)


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_asked_for_is_what_is_to_be_fetched_and_nothing_is_left_out_for_ever(
    seed: int, incremental: bool
) -> None:
    world = World(seed, incremental)
    for _ in range(500):
        world.step()
    world.exceeded = False
    waits_for_role = FetchState.LATE, FetchState.STORING  # with nothing pending: it said its word elsewhere
    for _ in range(100):  # outputs are finished and time passes: then all are fetched that need not wait
        for followed in list(world.pending):
            world.pending.pop(followed)
            if followed.is_followed:
                epoch, offset = followed.position
                world.machine.follow(followed.partition, FetchFrom(LEADER, epoch, offset + 1))
        for followed in list(world.machine.all()):
            if followed.state in waits_for_role:
                world.machine.follow(followed.partition, FetchFrom(LEADER, *followed.position))
        world.now_ms += 100
        world.machine.tick(world.now_ms)
    assert {each.state for each in world.machine.all()} <= {FetchState.FETCHING}
