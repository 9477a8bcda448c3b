"""The groups of one partition of `__consumer_offsets`: the state machine in a coordinator shard.

Groups of all protocols live in `groups` under one name space, their offsets in `offsets`. A record changes
the state through the one function that its key's type names; the table of these functions is put together
from the parts.
"""

import random
from collections.abc import Callable
from typing import Any

from moldau.broker.coordinator.group.classic.requests import ClassicGroups
from moldau.broker.coordinator.group.consumer.service import ConsumerGroups
from moldau.broker.coordinator.group.migration.classic_members import ClassicMembers
from moldau.broker.coordinator.group.migration.member_requests import MemberRequests
from moldau.broker.coordinator.group.offsets.committed import Offsets
from moldau.broker.coordinator.group.offsets.transactional import TransactionalOffsets
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.group.removals import Removals
from moldau.broker.coordinator.group.share.service import ShareGroups
from moldau.broker.coordinator.records import GroupRecord, decode, encode
from moldau.broker.coordinator.result import ParkedAnswer, Producer, Result
from moldau.broker.metadata.image import Image
from moldau.common.core.client_state import Holdings
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.coordinator_records import GroupMetadataKey, OffsetCommitKey
from moldau.common.protocol.messages.delete_groups import DeletableGroupResult
from moldau.common.protocol.messages.list_groups import ListedGroup
from moldau.common.settings.broker import BrokerSettings

Replay = Callable[[Any, Any], None]


class GroupShard:
    """The state of one shard."""

    def __init__(
        self,
        *,
        settings: Callable[[], BrokerSettings],
        image: Callable[[], Image],
        random_source: random.Random,
        removals: Removals,
        held: Holdings | None = None,
        share_groups: Callable[[ShardParts], ShareGroups] = ShareGroups,
    ) -> None:
        parts = ShardParts(settings, image, random_source, removals, held or Holdings())
        self.journal, self.deadlines = parts.journal, parts.deadlines
        self.groups, self.held, self._orphans = parts.groups, parts.held, parts.orphans
        self.classic = ClassicGroups(parts)
        self.consumer = ConsumerGroups(parts, self.classic)
        self.share = share_groups(parts)
        self.offsets = Offsets(parts, self.classic)
        self.transactional = TransactionalOffsets(parts, self.classic, self.offsets)
        self.members = MemberRequests(parts, self.classic, ClassicMembers(self.consumer))
        """The requests of members that speak the classic protocol."""
        self._replays: dict[type, Replay] = {
            GroupMetadataKey: self.classic.replay,
            OffsetCommitKey: self.offsets.replay,
            **self.consumer.replays(),
            **self.share.replays(),
        }

    # What the runtime needs.

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode(record)

    def replay(self, record: GroupRecord) -> None:
        self._replays[type(record.key)](record.key, record.value)

    def load(self, key: bytes, value: bytes) -> None:
        record = decode(key, value)
        if record is not None and type(record.key) in self._replays:
            self.replay(record)

    def replay_pending(self, record: GroupRecord, producer: Producer) -> None:
        self.transactional.replay_pending(record.key, record.value, producer)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.transactional.end_transaction(producer_id, committed)

    def load_pending(self, producer: Producer, key: bytes, value: bytes | None) -> None:
        self.transactional.load_pending(producer, key, value)

    def loaded(self, now_ms: int) -> Result[None]:
        result: Result[None] = Result()
        for group in list(self.groups.values()):
            group.loaded(now_ms).add_to(result)
        return result

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        self.transactional.break_guards()
        answers = [answer for group in self.groups.values() for answer in group.unloaded(error_code)]
        self.held.clear()
        return answers

    def rolled_back(self, error_code: int) -> list[ParkedAnswer]:
        """Groups whose creation was undone: answers for everyone parked in them."""
        orphans = self._orphans[:]
        self._orphans.clear()
        answers = [answer for group in orphans for answer in group.unloaded(error_code)]
        for group in orphans:
            classic = self.classic.get(group.group_id)  # the one before, if the name has one again
            if classic is None:
                self.held.set(group.group_id, 0)
            else:
                classic.count()
        return answers

    def due(self, key: tuple[str, str, str], now_ms: int) -> Result[None]:
        group_id, name, member_id = key
        group = self.groups.get(group_id)
        return Result() if group is None else group.on_deadline(name, member_id, now_ms)

    # What concerns groups of both protocols.

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
        """All groups in one of `states` and of one of `types` (both in lower case; empty means any)."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name(),
                group_type=group.kind.value,
            )
            for group in self.groups.values()
            if (not states or group.state_name().lower() in states)
            and (not types or group.kind.value in types)
        ]

    def delete_group(self, group_id: str) -> Result[DeletableGroupResult]:
        """Delete an empty group with its offsets."""
        group = self.groups.get(group_id)
        error_code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
        if group is None or error_code:
            return Result(DeletableGroupResult(group_id=group_id, error_code=error_code))
        records: list[Any] = [*self.offsets.tombstones(group_id), *group.tombstones()]
        return Result(DeletableGroupResult(group_id=group_id), records)

    def metadata_changed(
        self, old_image: Image, new_image: Image, deleted: frozenset[str], now_ms: int
    ) -> Result[None]:
        """Topics changed: offsets of those in `deleted` are dropped, consumer groups compute new targets."""
        result = self.consumer.metadata_changed(old_image, new_image, now_ms)
        self.share.metadata_changed(old_image, new_image, now_ms).add_to(result)
        if deleted:
            result.records += self.offsets.topics_deleted(deleted)
        return result
