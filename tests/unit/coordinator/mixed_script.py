"""A conversation of members of both protocols with one group, written as lines and run against a coordinator
in memory (`MemoryPort`) or a broker on the wire (tests/clients/client_mixed.py).

    line                                           answer
    A join reads=a [has=a01] [as=i1] [new] [by=x]  generation [leads A,B]     JoinGroup; `new` forgets its id
    A sync [A=a01,b2 B=-]                          what it is assigned        SyncGroup; a leader brings all
    A beat                                         ok                         Heartbeat
    A leave                                        ok                         LeaveGroup
    m 0 reads=a [has=a01] [as=i1] [full]           epoch [assignment]         ConsumerGroupHeartbeat
    A commit a0=7 [in=3]                           ok                         OffsetCommit (in: another
    generation) group                                          kind, state and members    ListGroups, then a
    describe wait 7000                                      ok                         milliseconds
    restart                                        ok                         kill -9, and start again

An error is its name. `...` means that the caller waits; an answer to a caller who waited follows the line in
which it came: `2 leads A,B; A: 2`. A capital letter speaks the classic protocol, a small one the consumer
protocol. `a0b` is partitions 0 and 11 of topic a: indices are single hexadecimal digits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from group_world import World

from moldau.broker.coordinator.group.migration.embedded_protocol import read_assignment, write_assignment
from moldau.broker.metadata.changes import TopicCreated
from moldau.broker.metadata.image import Image, PartitionState
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from moldau.common.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from moldau.common.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedRow
from moldau.common.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.common.protocol.messages.list_groups import ListGroupsRequest
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS, REBALANCE_MS = 10_000, 20_000
WAITS = "..."
ADMIN = "admin"


class Port(Protocol):
    """Where requests go. Each caller has one request under way at most."""

    group_id: str
    image: Image
    """The topics, under the names that the coordinator knows them by."""

    def topic_name(self, short: str) -> str:
        """The coordinator's name for a topic of the script."""

    def send(self, caller: str, request: Message, version: int) -> None: ...

    def answers(self, expected: Sequence[str]) -> Mapping[str, Any]:
        """The answers that have come, by caller; those of `expected` are waited for."""

    def wait(self, duration_ms: int) -> None: ...

    def restart(self) -> None: ...


class MemoryPort:
    """A coordinator without network, disk and time."""

    def __init__(self, topics: Mapping[str, int], **settings: Any) -> None:
        defaults = {"group_initial_rebalance_delay_ms": 0, "group_consumer_assignment_interval_ms": 0}
        self.world = World(**{**defaults, **settings})
        self.group_id = "crew"
        for number, (name, count) in enumerate(topics.items(), 16):
            change = TopicCreated(name, bytes([number] * 16), (PartitionState.fresh((0,)),) * count)
            self.world._topic(change)
        self._calls: dict[str, Any] = {}

    @property
    def image(self) -> Image:
        return self.world.image

    def topic_name(self, short: str) -> str:
        return short

    def send(self, caller: str, request: Message, version: int) -> None:
        self._calls[caller] = self.world.call(_METHODS[type(request)], request, version, caller)

    def answers(self, expected: Sequence[str]) -> Mapping[str, Any]:
        came = {caller: call.response for caller, call in self._calls.items()}
        came = {caller: response for caller, response in came.items() if response is not None}
        for caller in came:
            del self._calls[caller]
        return came

    def wait(self, duration_ms: int) -> None:
        self.world.advance(duration_ms)

    def restart(self) -> None:
        self._calls.clear()
        self.world.restart()

    def close(self) -> None:
        self.world.close()


_METHODS: Mapping[type, str] = {
    JoinGroupRequest: "join_group",
    SyncGroupRequest: "sync_group",
    HeartbeatRequest: "heartbeat",
    LeaveGroupRequest: "leave_group",
    ConsumerGroupHeartbeatRequest: "consumer_group_heartbeat",
    OffsetCommitRequest: "offset_commit",
    ListGroupsRequest: "list_groups",
    DescribeGroupsRequest: "describe_groups",
    ConsumerGroupDescribeRequest: "consumer_group_describe",
}


@dataclass
class Speaker:
    """What a client remembers of itself."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    protocol: str | None = None


class Script:
    """Runs lines against a port."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.speakers: dict[str, Speaker] = {}
        self._pending: dict[str, str] = {}

    def run(self, line: str, expected: str | None = None) -> str:
        """The answer to one line, in the words of the module's table. `expected` says which callers' answers
        are worth waiting for on the wire."""
        caller, *words = line.split()
        if caller == "group":
            return self._group()
        if caller == "wait":
            self.port.wait(int(words[0]))
            return self._shown("", self._collect([]), None)
        if caller == "restart":
            self._pending.clear()
            self.port.restart()
            return "ok"
        awaited = [] if expected is None else _awaited(caller, expected)
        if caller.isupper():
            return getattr(self, f"_{words[0]}")(caller, words[1:], awaited)
        return self._consumer_heartbeat(caller, words, awaited)

    # Requests.

    def _join(self, caller: str, words: Sequence[str], awaited: list[str]) -> str:
        options = dict(word.partition("=")[::2] for word in words)
        speaker = self.speakers.setdefault(caller, Speaker())
        if "new" in options:
            speaker.member_id = ""
        speaker.instance_id = options.get("as", speaker.instance_id)
        owned = [
            OwnedRow(topic=self.port.topic_name(name), partitions=indices)
            for name, indices in parse(options.get("has", "-")).items()
        ]
        subscription = ConsumerProtocolSubscription(
            topics=[self.port.topic_name(name) for name in options.get("reads", "a").split(",") if name],
            owned_partitions=owned,
            generation_id=speaker.generation,
        )
        metadata = b"\x00\x03" + subscription.encode(3)
        if "broken" in options:
            metadata = b"\x00\x01"  # a version, and nothing after it
        request = JoinGroupRequest(
            group_id=self.port.group_id,
            session_timeout_ms=int(options.get("session", SESSION_MS)),
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=speaker.member_id,
            group_instance_id=speaker.instance_id,
            protocol_type=options.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in options.get("by", "range").split("+")
            ],
        )
        version = int(options.get("version", 9))
        answer = self._call(caller, request, version, awaited)
        if answer == "MEMBER_ID_REQUIRED":
            request.member_id = speaker.member_id
            answer = self._call(caller, request, version, awaited)
        return answer

    def _sync(self, caller: str, words: Sequence[str], awaited: list[str]) -> str:
        speaker = self.speakers[caller]
        shares = dict(word.partition("=")[::2] for word in words)
        request = SyncGroupRequest(
            group_id=self.port.group_id,
            generation_id=speaker.generation,
            member_id=speaker.member_id,
            group_instance_id=speaker.instance_id,
            protocol_type="consumer",
            protocol_name=speaker.protocol,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.speakers[name].member_id, assignment=self._assignment(share)
                )
                for name, share in shares.items()
            ],
        )
        return self._call(caller, request, 5, awaited)

    def _assignment(self, share: str) -> bytes:
        topics = self.port.image.topics
        by_id = {
            topics[self.port.topic_name(name)].topic_id: frozenset(indices)
            for name, indices in parse(share).items()
        }
        return write_assignment(by_id, self.port.image, 3)

    def _beat(self, caller: str, words: Sequence[str], awaited: list[str]) -> str:
        speaker = self.speakers[caller]
        request = HeartbeatRequest(
            group_id=self.port.group_id,
            generation_id=speaker.generation,
            member_id=speaker.member_id,
            group_instance_id=speaker.instance_id,
        )
        return self._call(caller, request, 4, awaited)

    def _leave(self, caller: str, words: Sequence[str], awaited: list[str]) -> str:
        """A member leaves; `for=m` names another one, of either protocol, as an administrator does."""
        options = dict(word.partition("=")[::2] for word in words)
        speaker = self.speakers.get(caller, Speaker())
        named = options.get("for", caller)
        member_id = self.speakers[named].member_id if named in self.speakers else named
        member_id = speaker.member_id if named == caller else member_id
        identity = MemberIdentity(member_id=member_id, group_instance_id=speaker.instance_id)
        request = LeaveGroupRequest(group_id=self.port.group_id, members=[identity])
        return self._call(caller, request, 5, awaited)

    def _commit(self, caller: str, words: Sequence[str], awaited: list[str]) -> str:
        speaker = self.speakers[caller]
        options = dict(word.partition("=")[::2] for word in words)
        generation = int(options.pop("in", speaker.generation))
        version = int(options.pop("version", 8))
        ((place, offset),) = options.items()
        row = OffsetCommitRequestPartition(partition_index=int(place[1:], 16), committed_offset=int(offset))
        request = OffsetCommitRequest(
            group_id=self.port.group_id,
            generation_id_or_member_epoch=generation,
            member_id=speaker.member_id,
            topics=[OffsetCommitRequestTopic(name=self.port.topic_name(place[0]), partitions=[row])],
        )
        return self._call(caller, request, version, awaited)

    def _consumer_heartbeat(self, caller: str, words: Sequence[str], awaited: list[str]) -> str:
        epoch = int(words[0])
        options = dict(word.partition("=")[::2] for word in words[1:])
        topics = self.port.image.topics
        owned = parse(options["has"]) if "has" in options else ({} if epoch == 0 else None)
        rows = None
        if owned is not None:
            rows = [
                TopicPartitions(topic_id=topics[self.port.topic_name(name)].topic_id, partitions=indices)
                for name, indices in owned.items()
            ]
        names = options["reads"].split(",") if "reads" in options else None
        if epoch == 0 and names is None:
            names = ["a"]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.port.group_id,
            member_id=options.get("id", caller),
            member_epoch=epoch,
            instance_id=options.get("as"),
            rebalance_timeout_ms=REBALANCE_MS if epoch == 0 or "full" in options else -1,
            subscribed_topic_names=None if names is None else [self.port.topic_name(name) for name in names],
            topic_partitions=rows,
        )
        return self._call(caller, request, 1, awaited)

    def _group(self) -> str:
        groups = {group.group_id: group for group in self._ask(ListGroupsRequest(), 5).groups}
        listed = groups.get(self.port.group_id)
        if listed is None:
            return "none"
        words = [listed.group_type.lower(), listed.group_state]
        if words[0] == "classic":
            (described,) = self._ask(DescribeGroupsRequest(groups=[self.port.group_id]), 6).groups
            words.append(f"{len(described.members)} members")
        else:
            request = ConsumerGroupDescribeRequest(group_ids=[self.port.group_id])
            (described,) = self._ask(request, 1).groups
            words.append(f"epoch {described.group_epoch}")
            kinds = [member.member_type for member in described.members]
            words.append(f"{kinds.count(0)} classic {kinds.count(1)} consumer")
        return " ".join(words)

    def _ask(self, request: Message, version: int) -> Any:
        self.port.send(ADMIN, request, version)
        came = dict(self.port.answers([ADMIN]))
        response = came.pop(ADMIN)
        assert not came, f"unasked answers: {came}"
        return response

    # Answers.

    def _call(self, caller: str, request: Message, version: int, awaited: list[str]) -> str:
        self._pending[caller] = type(request).__name__
        self.port.send(caller, request, version)
        return self._shown(caller, self._collect(awaited), request)

    def _collect(self, awaited: Sequence[str]) -> dict[str, str]:
        came = self.port.answers(awaited)
        return {caller: self._text(caller, response) for caller, response in came.items()}

    def _shown(self, caller: str, came: dict[str, str], request: Message | None) -> str:
        own = came.pop(caller, WAITS if request is not None else "ok")
        return "; ".join([own, *(f"{other}: {came[other]}" for other in sorted(came))])

    def _text(self, caller: str, response: Any) -> str:
        kind = self._pending.pop(caller)
        speaker = self.speakers.get(caller, Speaker())
        if kind == "OffsetCommitRequest":
            return _name(response.topics[0].partitions[0].error_code)
        if kind == "JoinGroupRequest" and response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            speaker.member_id = response.member_id
        if response.error_code:
            return _name(response.error_code)
        if kind == "JoinGroupRequest":
            speaker.member_id, speaker.generation = response.member_id, response.generation_id
            speaker.protocol = response.protocol_name
            led = sorted(self._name_of(row.member_id) for row in response.members)
            return f"{response.generation_id}" + (f" leads {','.join(led)}" if led else "")
        if kind == "SyncGroupRequest":
            partitions = read_assignment(response.assignment)[0] if response.assignment else ()
            return self._named(dict(partitions))
        if kind == "LeaveGroupRequest":
            return _name(response.members[0].error_code)
        if kind == "ConsumerGroupHeartbeatRequest":
            if response.assignment is None:
                return str(response.member_epoch)
            names = self.port.image.topic_names
            rows = response.assignment.topic_partitions
            return f"{response.member_epoch} " + self._named(
                {names[row.topic_id]: row.partitions for row in rows}
            )
        return "ok"

    def _name_of(self, member_id: str) -> str:
        """Who has this id; a member whose client has lost it, or never heard of it, is a ghost: `?1`."""
        for name, speaker in self.speakers.items():
            if speaker.member_id == member_id:
                return name
        name = f"?{len(self.speakers)}"
        self.speakers[name] = Speaker(member_id)
        return name

    def _named(self, partitions: Mapping[str, Sequence[int]]) -> str:
        shorts = {self.port.topic_name(short): short for short in "abcd"}
        parts = [
            shorts[name] + "".join(f"{index:x}" for index in sorted(indices))
            for name, indices in partitions.items()
            if indices
        ]
        return ",".join(sorted(parts)) or "-"


def parse(text: str) -> dict[str, list[int]]:
    """`a01,b2` is partitions 0 and 1 of a, 2 of b; `-` is none."""
    return {
        part[0]: [int(digit, 16) for digit in part[1:]] for part in text.split(",") if part not in ("-", "")
    }


def _name(error_code: int) -> str:
    return ErrorCode(error_code).name if error_code else "ok"


def _awaited(caller: str, expected: str) -> list[str]:
    own, *others = expected.split("; ")
    return ([] if own == WAITS else [caller]) + [other.partition(":")[0] for other in others]
