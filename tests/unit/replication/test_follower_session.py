"""The follower and the leader have the same idea of a fetch session, whatever happens between requests."""

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.broker.replication.fetch_session import Targets, targets_of, update
from moldau.broker.replication.following.followed import Followed
from moldau.broker.replication.following.follower_session import FetchLimits, FollowerSession
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.messages.fetch import FetchRequest

LIMITS = FetchLimits(500, 1, 1000, 100)


def followed(topic: int, index: int) -> Followed:
    log = SimpleNamespace(latest_leader_epoch=3, log_start_offset=0)
    partition = SimpleNamespace(
        topic=f"t{topic}", topic_id=bytes([topic]) * 16, index=index, log=log, log_start_saved=None
    )
    return Followed(cast(Any, partition), FetchFrom(2, 5, 10 * index))


class Leader:
    """What a leader keeps of a session (fetch_session.py, fetch/fetch.py)."""

    def __init__(self) -> None:
        self.targets: Targets = {}

    def take(self, request: FetchRequest) -> None:
        topics = [
            (
                topic.topic_id,
                [
                    (
                        row.partition,
                        row.current_leader_epoch,
                        row.fetch_offset,
                        row.last_fetched_epoch,
                        row.log_start_offset,
                        row.partition_max_bytes,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        forgotten = [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
        if request.session_epoch > 0:
            update(self.targets, topics, forgotten)
        else:
            self.targets = targets_of(topics)

    def reads(self) -> dict[tuple[bytes, int], tuple[int, int]]:
        return {key: (target.leader_epoch, target.offset) for key, target in self.targets.items()}


def request_of(session: FollowerSession) -> FetchRequest:
    request = session.request(LIMITS, 500)
    for each in session.take_changed():
        session.row(each, request, LIMITS)
    return FetchRequest.decode(request.encode(17), 17)


def told(session: FollowerSession) -> dict[tuple[bytes, int], tuple[int, int]]:
    return {(each.partition.topic_id, each.partition.index): tuple(at) for each, at in session.told.items()}


@pytest.mark.parametrize("incremental", [True, False])
def test_both_sides_know_the_same(incremental: bool) -> None:
    draw = random.Random(5)
    everything = [followed(topic, index) for topic in range(3) for index in range(3)]
    session, leader = FollowerSession(incremental=incremental), Leader()
    wanted: dict[Followed, None] = {}
    for _ in range(2000):
        for each in draw.sample(everything, draw.randint(0, 4)):
            if draw.random() < 0.6:
                each.position = each.position._replace(offset=each.position.offset + draw.randint(0, 3))
                session.ask_for(each)
                wanted[each] = None
            else:
                session.leave_out(each)
                wanted.pop(each, None)
        if draw.random() < 0.1:
            session.begin_anew(wanted)
        if session.is_empty:
            continue
        leader.take(request_of(session))
        assert leader.reads() == told(session)
        assert set(session.told) == set(wanted)
        assert session.answered(7 if incremental else 0)


def test_who_comes_back_and_goes_again_between_two_requests_is_left_out() -> None:
    session, leader, one, other = FollowerSession(), Leader(), followed(0, 0), followed(0, 1)
    for each in (one, other):
        session.ask_for(each)
    leader.take(request_of(session))
    session.answered(7)
    session.leave_out(one)
    again = followed(0, 0)  # the same partition, followed anew
    session.ask_for(again)
    session.leave_out(again)
    leader.take(request_of(session))
    assert leader.reads().keys() == {(other.partition.topic_id, 1)}


def test_epochs_of_a_session() -> None:
    session = FollowerSession()
    session.ask_for(followed(0, 0))
    asked = request_of(session)
    assert (asked.session_id, asked.session_epoch) == (0, 0)
    session.answered(7)
    for epoch in (1, 2):
        asked = request_of(session)
        assert (asked.session_id, asked.session_epoch, asked.topics) == (7, epoch, [])
        session.answered(7)
    session.begin_anew([followed(0, 0)])
    asked = request_of(session)
    assert (asked.session_id, asked.session_epoch) == (7, 0), "the old one is closed by it"


def test_a_leader_without_room_for_a_session_is_told_everything_again() -> None:
    session, one = FollowerSession(), followed(0, 0)
    session.ask_for(one)
    request_of(session)
    assert not session.answered(0)
    session.begin_anew([one])
    asked = request_of(session)
    assert asked.session_epoch == 0
    assert len(asked.topics) == 1
