"""The committed offsets of all groups in one shard: commit, fetch, delete, expire.

An offset is kept as the message that stands in the log. Its group decides whether a member may commit or
fetch; a commit for a group that does not exist creates one that only stores offsets.

Expiry (KIP-211): an offset is dropped when `offsets.retention.minutes` have passed since its group became
empty, or, where the group is in use but does not subscribe to the topic, since the commit. A group without
members and offsets goes too.

Hot: `commit` and `replay`; budget with the runtime's share and encoding 60 µs for one partition. Not here:
offsets committed in transactions (transactional.py); here it only matters that they are pending.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.requests import ClassicGroups
from moldau.broker.coordinator.group.consumer.group import OTHER_EPOCH, ConsumerGroup
from moldau.broker.coordinator.group.group import Client, GroupKind
from moldau.broker.coordinator.group.offsets.pending import PendingOffsets, Place
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.records import GroupRecord, offset_tombstone
from moldau.broker.coordinator.result import Result
from moldau.broker.metadata.image import TopicState
from moldau.common.protocol.declare import ZERO_UUID
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    pass

TOPIC_IDS_SINCE = 10
GROUP_NOT_FOUND_SINCE = 9
MINUTE_MS = 60_000
NO_OFFSET = -1


class Offsets:
    """Committed offsets by group, then by (topic, partition)."""

    def __init__(self, parts: ShardParts, classic: ClassicGroups) -> None:
        self.parts = parts
        self._classic = classic
        self.by_group: dict[str, dict[tuple[str, int], OffsetCommitValue]] = parts.journal.dict()
        self.pending = PendingOffsets(parts.journal)

    # Replay.

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """One offset was committed, or dropped."""
        group_id = key.group
        if value is not None:
            self.put(group_id, key.topic, key.partition, value)
            if self.pending.by_group:
                self.pending.supersede(Place(group_id, key.topic, key.partition))
            return
        offsets = self.by_group.get(group_id)
        if offsets is not None and (key.topic, key.partition) in offsets:
            del offsets[(key.topic, key.partition)]
            if not offsets:
                del self.by_group[group_id]
        if self.pending.by_group:
            self.pending.drop(Place(group_id, key.topic, key.partition))

    def put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """The offset that counts from now on."""
        if group_id not in self.parts.groups:
            self._classic.ensure(group_id)
        offsets = self.by_group.get(group_id)
        if offsets is None:
            offsets = self.by_group[group_id] = self.parts.journal.dict()
        offsets[(topic, partition)] = value

    # OffsetCommit.

    def commit(
        self, request: OffsetCommitRequest, client: Client, now_ms: int
    ) -> Result[OffsetCommitResponse]:
        """Store offsets, each with its own outcome; a request that its group refuses fails as a whole."""
        error_code = self._check_commit(request, client.api_version)
        if error_code:
            return Result(refuse_commit(request, error_code))
        group_id = request.group_id
        retention_ms = request.retention_time_ms
        keeps_expiry = retention_ms != -1
        expire_timestamp = now_ms + retention_ms if keeps_expiry else -1
        metadata_bytes_max = self.parts.settings().offset_metadata_max_bytes
        image = self.parts.image()
        records: list[Any] = []
        topics = []
        for topic in request.topics:
            name: str | None = topic.name
            missing: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if client.api_version >= TOPIC_IDS_SINCE:
                name = image.topic_names.get(topic.topic_id)
                missing = ErrorCode.UNKNOWN_TOPIC_ID
            state = None if name is None else image.topics.get(name)
            partition_count = 0 if state is None else len(state.partitions)
            rows = []
            for row in topic.partitions:
                metadata = row.committed_metadata or ""
                if state is None:
                    outcome = missing
                elif not 0 <= row.partition_index < partition_count:
                    outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif len(metadata) > metadata_bytes_max:
                    outcome = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    outcome = ErrorCode.NONE
                    key = OffsetCommitKey(group=group_id, topic=state.name, partition=row.partition_index)
                    value = OffsetCommitValue(
                        offset=row.committed_offset,
                        leader_epoch=row.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms,
                        expire_timestamp=expire_timestamp,
                        topic_id=ZERO_UUID if keeps_expiry else state.topic_id,
                    )
                    records.append(GroupRecord(key, value))
                rows.append(
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=outcome)
                )
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows)
            )
        result = Result(OffsetCommitResponse(topics=topics), records)
        group = self.parts.groups.get(group_id)
        member = group.members.get(request.member_id) if isinstance(group, ClassicGroup) else None
        if isinstance(group, ClassicGroup) and member is not None:  # a commit counts as a heartbeat
            result.effects.append(group.session_restart(member, now_ms))
        return result

    def _check_commit(self, request: OffsetCommitRequest, api_version: int) -> int:
        epoch = request.generation_id_or_member_epoch
        group = self.parts.groups.get(request.group_id)
        if group is None:
            if epoch < 0:
                return ErrorCode.NONE
            old = api_version < GROUP_NOT_FOUND_SINCE
            return ErrorCode.ILLEGAL_GENERATION if old else ErrorCode.GROUP_ID_NOT_FOUND
        error_code = group.validate_offset_commit(
            request.member_id, request.group_instance_id, epoch, api_version
        )
        if error_code in OTHER_EPOCH and isinstance(group, ConsumerGroup):
            return ErrorCode.NONE if self._all_held(group, request, api_version) else error_code
        return error_code

    def _all_held(self, group: ConsumerGroup, request: OffsetCommitRequest, api_version: int) -> bool:
        """Whether a member that is an epoch behind has had all that it commits since then (KIP-1251)."""
        topics = self.parts.image().topics
        for topic in request.topics:
            topic_id = topic.topic_id
            if api_version < TOPIC_IDS_SINCE and topic.name in topics:
                topic_id = topics[topic.name].topic_id
            for row in topic.partitions:
                epoch = request.generation_id_or_member_epoch
                if not group.may_commit_partition(request.member_id, epoch, topic_id, row.partition_index):
                    return False
        return True

    # OffsetFetch.

    def fetch(
        self, request: OffsetFetchRequestGroup, api_version: int, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        """Offsets of the partitions asked for (-1 where none is committed), or all where `topics` is None.
        With `require_stable`, none where a transaction is open (KIP-447)."""
        group_id = request.group_id
        group = self.parts.groups.get(group_id)
        error_code: int = ErrorCode.NONE
        if group is not None:
            error_code = group.validate_offset_fetch(request.member_id, request.member_epoch)
        if error_code:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=error_code)
        offsets = self.by_group.get(group_id, {})
        unstable = self.pending.partitions(group_id) if require_stable else ()
        image = self.parts.image()
        topics = []
        if request.topics is None:
            by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
            for (name, partition), value in sorted(offsets.items(), key=lambda item: item[0]):
                if (name, partition) in unstable:
                    by_topic.setdefault(name, []).append(_unstable(partition))
                elif _is_of(value, image.topics.get(name)):
                    by_topic.setdefault(name, []).append(_fetched(partition, value))
            for name, rows in by_topic.items():
                state = image.topics.get(name)
                if state is not None or api_version < TOPIC_IDS_SINCE:
                    topic_id = ZERO_UUID if state is None else state.topic_id
                    topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=rows))
            return OffsetFetchResponseGroup(group_id=group_id, topics=topics)
        for topic in request.topics:
            topic_name: str | None = topic.name
            if api_version >= TOPIC_IDS_SINCE:
                topic_name = image.topic_names.get(topic.topic_id)
            if topic_name is None:
                rows = [_missing(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            else:
                found = image.topics.get(topic_name)
                values = ((index, offsets.get((topic_name, index))) for index in topic.partition_indexes)
                rows = [
                    _unstable(index)
                    if (topic_name, index) in unstable
                    else _fetched(index, value if _is_of(value, found) else None)
                    for index, value in values
                ]
            topics.append(
                OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=rows)
            )
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    # Deleting.

    def delete(self, request: OffsetDeleteRequest) -> Result[OffsetDeleteResponse]:
        """Drop single offsets, except those of topics that the group consumes now."""
        if not request.group_id:
            return Result(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.parts.groups.get(request.group_id)
        error_code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_offset_delete()
        if group is None or error_code:
            return Result(OffsetDeleteResponse(error_code=error_code))
        known = self._places(request.group_id)
        records: list[Any] = []
        topics = []
        for topic in request.topics:
            state = self.parts.image().topics.get(topic.name)
            partition_count = 0 if state is None else len(state.partitions)
            subscribed = group.subscribed_to(topic.name)
            rows = []
            for row in topic.partitions:
                index, outcome = row.partition_index, ErrorCode.NONE
                if not 0 <= index < partition_count:
                    outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif subscribed:
                    outcome = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif (topic.name, index) in known:
                    records.append(offset_tombstone(request.group_id, topic.name, index))
                rows.append(OffsetDeleteResponsePartition(partition_index=index, error_code=outcome))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
        return Result(OffsetDeleteResponse(topics=topics), records)

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        """Records that drop all offsets of a group, pending ones too."""
        return [offset_tombstone(group_id, topic, index) for topic, index in self._places(group_id)]

    def topics_deleted(self, names: frozenset[str]) -> list[GroupRecord]:
        """Records that drop the offsets of topics that are no more, pending ones too."""
        return [
            offset_tombstone(group_id, topic, index)
            for group_id in dict.fromkeys((*self.by_group, *self.pending.by_group))
            for topic, index in self._places(group_id)
            if topic in names
        ]

    def _places(self, group_id: str) -> dict[tuple[str, int], None]:
        """The (topic, partition)s for which the group has an offset, committed or pending."""
        return dict.fromkeys((*self.by_group.get(group_id, ()), *self.pending.partitions(group_id)))

    def expire(self, group_id: str, now_ms: int) -> list[GroupRecord]:
        """Records that drop what has expired of a group, and the group itself once it has neither members nor
        offsets."""
        group = self.parts.groups[group_id]
        if group.kind is GroupKind.SHARE:
            return []  # it has states elsewhere, and is deleted by hand
        retention_ms = self.parts.settings().offsets_retention_minutes * MINUTE_MS
        unstable = self.pending.partitions(group_id)
        records: list[GroupRecord] = []
        left = len(unstable)
        for (topic, index), value in self.by_group.get(group_id, {}).items():
            if (topic, index) not in unstable and self._expired(value, group, topic, retention_ms, now_ms):
                records.append(offset_tombstone(group_id, topic, index))
            else:
                left += 1
        if not left and group.is_empty() and not self._classic.expects_members(group_id):
            records += group.tombstones()
        return records

    def _expired(
        self, value: OffsetCommitValue, group: Any, topic: str, retention_ms: int, now_ms: int
    ) -> bool:
        from_ms = group.offsets_expire_from_ms(value.commit_timestamp)
        if from_ms is None or group.subscribed_to(topic):
            return False
        if value.expire_timestamp != -1:
            return now_ms >= value.expire_timestamp
        return bool(now_ms - from_ms >= retention_ms)

    def __iter__(self) -> Iterator[tuple[str, str, int, int, str]]:
        """(group id, topic, partition, offset, metadata) of every committed offset, for lag export."""
        for group_id, offsets in self.by_group.items():
            for (topic, partition), value in offsets.items():
                yield group_id, topic, partition, value.offset, value.metadata


def refuse_commit(request: OffsetCommitRequest, error_code: int) -> OffsetCommitResponse:
    """The response in which every partition has this error; versions 2 and up have no other place for it."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=_refused(topic.partitions, error_code),
            )
            for topic in request.topics
        ]
    )


def _refused(partitions: Iterable[Any], error_code: int) -> list[OffsetCommitResponsePartition]:
    return [
        OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error_code)
        for row in partitions
    ]


def _is_of(value: OffsetCommitValue | None, topic: TopicState | None) -> bool:
    """Whether an offset belongs to the topic that has its name now. If a crash came between the deletion of a
    topic and the deletion of its offsets, they may stand for another one. What is unknown counts as the
    same."""
    if value is None or topic is None or value.topic_id == ZERO_UUID:
        return True
    return bool(value.topic_id == topic.topic_id)


def _fetched(partition: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if value is None:
        return _missing(partition, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return _missing(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def _missing(partition: int, error_code: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error_code,
    )
