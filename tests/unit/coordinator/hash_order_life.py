"""A life of everything here, told line by line on standard output: what assignors answer, and what groups and
transactions write and answer. Run by test_hash_order.py in processes with different hash seeds, with this
folder and transaction/ on the path."""

import random
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import consumer_world
import group_world
import transaction_world

from moldau.broker.coordinator.group.assignors import ASSIGNORS, GroupSpec, MemberSpec
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.common.protocol.errors import ErrorCode

TOPICS = {f"topic-{number}-{'x' * number}": number % 5 + 1 for number in range(12)}


def assignors() -> Iterator[Any]:
    """Groups with mixed subscriptions, each assigned three times on top of the last answer."""
    source = random.Random(5)
    topic_ids = [source.randbytes(16) for _ in range(9)]
    for name in sorted(ASSIGNORS):
        for _ in range(40):
            counts = {topic_id: source.randint(1, 9) for topic_id in topic_ids}
            members = {f"member-{source.getrandbits(40):x}": MemberSpec(frozenset()) for _ in range(7)}
            for _ in range(3):
                members = {
                    member_id: MemberSpec(
                        frozenset(source.sample(topic_ids, source.randint(1, 9))),
                        member.previous,
                        source.choice([None, f"instance of {member_id}"]),
                    )
                    for member_id, member in members.items()
                }
                answer = ASSIGNORS[name](GroupSpec(members, counts))
                yield (
                    name,
                    [
                        (member_id, [(topic_id.hex(), list(indices)) for topic_id, indices in share.items()])
                        for member_id, share in answer.items()
                    ],
                )
                members = {
                    member_id: MemberSpec(member.topic_ids, answer[member_id])
                    for member_id, member in members.items()
                }


def consumer_groups() -> Iterator[Any]:
    """Members with names and patterns come, change and leave while topics come and go."""
    world = consumer_world.World(TOPICS)
    source = random.Random(6)
    names = list(TOPICS)
    epochs: dict[str, int] = {}
    for step in range(120):
        member_id = f"member-{source.randint(0, 5)}"
        group = world.shard.groups.get(consumer_world.GROUP)
        known = isinstance(group, ConsumerGroup) and member_id in group.members
        epoch = epochs.get(member_id, 0) if known else 0
        topics, fields = None, {}
        if source.random() < 0.3 or not epoch:
            topics = source.sample(names, source.randint(1, len(names)))
            fields["subscribed_topic_regex"] = source.choice(["", "topic-[1-4].*", ".*x+"])
        held = world.held(member_id) if epoch > 0 and source.random() < 0.7 else None
        response = world.heartbeat(
            member_id, epoch, topics, owned=held, server_assignor=source.choice(sorted(ASSIGNORS)), **fields
        )
        yield response
        epochs[member_id] = max(response.member_epoch, 0)
        if step % 30 == 29:
            world.advance(60_000)
            world.set_topics({name: TOPICS[name] for name in source.sample(names, 8)}, incarnation=step)
            world.set_topics(TOPICS, incarnation=step)
            yield world.shard.consumer.describe(consumer_world.GROUP, world.now_ms)
    yield from world.log


def classic_groups() -> Iterator[Any]:
    """Groups that form, commit offsets, plainly and in transactions, lose members and are deleted."""
    world = group_world.World()
    members, generation = world.form(4, protocols=(("range", b"r"), ("sticky", b"s")))
    for number, member_id in enumerate(members):
        for topic in ("wine", "beer"):
            world.commit(
                number, topic=topic, partition=number % 3, member_id=member_id, generation=generation
            )
            world.commit_pending(number, number, topic=topic, partition=number % 3, group=f"other-{number}")
    yield world.leave(*members[1:3])
    world.advance(61_000)  # the others do not join again
    for number in range(3):
        yield world.end(number, committed=number != 1).response
    world.delete_topic("beer")
    yield world.offsets(), world.offsets("other-0"), world.offsets("other-2")
    world.advance(900_000_000)
    yield from world.log.records[0]
    world.close()


def transactions() -> Iterator[Any]:
    """Transactions on many partitions, some of whose markers are refused at first."""
    world = transaction_world.World()
    world.markers.refuse["wine", 1] = deque([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2)
    partitions = [(name, index) for name in ("wine", "beer") for index in range(3)]
    for number in range(6):
        transactional_id = f"tx-{number}"
        identity = world.init(transactional_id).identity
        yield world.verify(identity, partitions, add=True, transactional_id=transactional_id)
        yield world.end(identity, number % 2 == 0, transactional_id=transactional_id).response
    yield world.list()
    world.advance(60_000)
    yield world.markers.attempts
    yield from world.log.records.get(0, [])
    world.close()


if __name__ == "__main__":
    for part in (assignors, consumer_groups, classic_groups, transactions):
        for line in part():
            sys.stdout.write(f"{part.__name__}: {line!r}\n")
