"""What a group coordinator asks of share coordinators, for members and for administrators (KIP-932).

    initialize    share-partitions of a group's topics without state; a member that joins waits for that
    briefly
    delete        a group's or a topic's states; only then is the group, or the topic in it, gone
    alter         an empty group's start offsets: the states begin anew, in a new group epoch
    describe      start offsets and lags (KIP-1226)

Each begins with a record that says what may exist at the share coordinators (share/states.py), and ends with
one that says what does. What fails in between is found in the records, and asked for again.

For each group one of them is under way at a time, and looks at the records when its turn comes: a state that
was initialized, and is in use, is not begun anew or deleted by a request that has waited behind.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from moldau.broker.coordinator.group.share import records
from moldau.broker.coordinator.group.share.group import ShareGroup
from moldau.broker.coordinator.group.share.states import StateTopic
from moldau.broker.coordinator.result import Result
from moldau.broker.coordinator.share import states as calls
from moldau.broker.coordinator.share.shard import Outcome
from moldau.broker.coordinator.share.state import NOT_CHOSEN, NOT_KNOWN, Key
from moldau.broker.coordinator.share.states import ShareStates
from moldau.broker.metadata.image import Image
from moldau.common.core.waiting import settled
from moldau.common.protocol.errors import ErrorCode, error_message
from moldau.common.protocol.messages import alter_share_group_offsets as alter_messages
from moldau.common.protocol.messages import delete_share_group_offsets as delete_messages
from moldau.common.protocol.messages import describe_share_group_offsets as describe_messages
from moldau.common.protocol.messages.delete_groups import DeletableGroupResult

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.shard import GroupShard

ATTEMPTS_MAX = 10
"""Attempts at a share coordinator, before an administrator is told that it failed."""
AT_ONCE = 256
"""Share-partitions that are asked about at a time."""

_log = logging.getLogger("moldau.coordinator.group.share")

EndOffsets = Callable[[Sequence[tuple[str, int]]], Awaitable[dict[tuple[str, int], int]]]
"""The high watermarks of partitions anywhere in the cluster; those that are not known are left out."""


class Deciding(Protocol):
    """The group coordinator's way to a group's shard."""

    def decide_for(
        self,
        group_id: str,
        operation: Callable[["GroupShard", int], Result[Any]],
        refuse: Callable[[int], Any],
    ) -> Any: ...

    def submit_for(self, group_id: str, operation: Callable[["GroupShard", int], Result[None]]) -> None: ...

    def shard_of(self, group_id: str) -> "GroupShard | None": ...


class _Turn:
    """Of a group. `users` have it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class ShareAdministration:
    """See the module."""

    def __init__(
        self,
        groups: Deciding,
        states: ShareStates,
        image: Callable[[], Image],
        end_offsets: EndOffsets,
    ) -> None:
        self._groups = groups
        self._states = states
        self._image = image
        self._end_offsets = end_offsets
        self._tasks: set[asyncio.Future[Any]] = set()
        self._initializing: dict[str, asyncio.Future[None]] = {}
        self._turns: dict[str, _Turn] = {}

    def stop(self) -> None:
        """Give up what is under way."""
        for task in list(self._tasks):
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Future[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("share-partitions' states: this is a bug", exc_info=task.exception())

    @asynccontextmanager
    async def _turn(self, group_id: str) -> AsyncIterator[None]:
        """Wait until nothing else is under way for the group."""
        turn = self._turns.setdefault(group_id, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[group_id]

    def _group(self, group_id: str) -> ShareGroup | None:
        shard = self._groups.shard_of(group_id)
        return None if shard is None else shard.share.get(group_id)

    # Members

    def initialize(self, group_id: str, group_epoch: int, topics: Mapping[bytes, StateTopic]) -> None:
        """Have these share-partitions begun, and assigned to members then."""

        async def work() -> None:
            async with self._turn(group_id):
                group = self._group(group_id)
                if group is not None:
                    wanted = group.states.still_initializing(topics)
                    await self._initialize(group_id, group_epoch, wanted)

        task = self._initializing[group_id] = self._begin(work())

        def forget(_: object) -> None:
            if self._initializing.get(group_id) is task:
                del self._initializing[group_id]

        task.add_done_callback(forget)

    def initializing(self, group_id: str) -> "asyncio.Future[None] | None":
        """Done when what was asked for the group has been answered; None: nothing is under way."""
        return self._initializing.get(group_id)

    async def _initialize(self, group_id: str, group_epoch: int, topics: Mapping[bytes, StateTopic]) -> None:
        keys = _keys(group_id, topics)
        codes = await self._all(
            [calls.initialize(key, group_epoch, NOT_CHOSEN) for key in keys],
        )
        done: dict[bytes, StateTopic] = {}
        for key, outcome in zip(keys, codes, strict=True):
            if not outcome.error_code:
                before = done.get(key.topic_id, StateTopic(topics[key.topic_id].name))
                done[key.topic_id] = before._replace(partitions=before.partitions | {key.partition})
        if done:
            self._groups.submit_for(
                group_id, lambda shard, now_ms: shard.share.confirm(group_id, done, now_ms)
            )
        failed = [outcome.error_code for outcome in codes if outcome.error_code]
        if failed:
            _log.warning(
                "share group %s: %d share-partitions cannot be initialized (error %d); tried again",
                group_id,
                len(failed),
                failed[0],
            )
            shard = self._groups.shard_of(group_id)
            if shard is not None:
                shard.share.not_confirmed(group_id)

    async def _all(self, asked: list[calls.Call]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for start in range(0, len(asked), AT_ONCE):
            outcomes += await self._states.all_done(asked[start : start + AT_ONCE], ATTEMPTS_MAX)
        return outcomes

    # Deleting

    def delete_states(self, group_id: str, topics: Mapping[bytes, StateTopic]) -> None:
        """Delete states that a record says are being deleted."""
        self._begin(self._delete_states(group_id, topics))

    async def _delete_states(self, group_id: str, topics: Mapping[bytes, StateTopic]) -> None:
        async with self._turn(group_id):
            group = self._group(group_id)
            if group is None:
                return
            left = {key: each for key, each in topics.items() if key in group.states.deleting}
            self._end_deletion(group_id, left, await self._deleted(group_id, left))

    def _end_deletion(
        self, group_id: str, topics: Mapping[bytes, StateTopic], failed: Mapping[bytes, int]
    ) -> None:
        """The others' states are gone. What failed stays in the records, and is tried again while the group
        has members."""
        gone = [topic_id for topic_id in topics if topic_id not in failed]
        if gone:
            self._groups.submit_for(group_id, lambda shard, now_ms: shard.share.end_deletion(group_id, gone))

    async def _deleted(self, group_id: str, topics: Mapping[bytes, StateTopic]) -> dict[bytes, int]:
        """Delete the states of these share-partitions; error codes by topic."""
        keys = _keys(group_id, topics)
        outcomes = await self._all([calls.delete(key) for key in keys])
        return {
            key.topic_id: outcome.error_code
            for key, outcome in zip(keys, outcomes, strict=True)
            if outcome.error_code
        }

    async def delete_group(self, group_id: str) -> DeletableGroupResult:
        """Delete an empty share group with its states."""

        def row(error_code: int) -> DeletableGroupResult:
            return DeletableGroupResult(group_id=group_id, error_code=error_code)

        def begin(shard: "GroupShard", now_ms: int) -> Result[Any]:
            group = shard.share.get(group_id)
            error_code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
            if group is None or error_code:
                return Result(row(error_code))
            result = shard.share.begin_deletion(group_id, list(group.states.known()))
            return Result(group.states.known(), result.records)

        async with self._turn(group_id):
            topics = await settled(self._groups.decide_for(group_id, begin, row))
            if isinstance(topics, DeletableGroupResult):
                return topics
            failed = await self._deleted(group_id, self._with_partitions(topics))
            if failed:
                result = row(next(iter(failed.values())))
            else:
                result = await settled(
                    self._groups.decide_for(group_id, lambda shard, now_ms: shard.delete_group(group_id), row)
                )
            if result.error_code:  # a member has joined meanwhile, say: its topics get new states
                self._end_deletion(group_id, topics, failed)
            return result

    def _with_partitions(self, topics: Mapping[bytes, StateTopic]) -> dict[bytes, StateTopic]:
        """Of topics whose deletion was begun before, the records have only the names."""
        existing = self._image().topics
        found = {}
        for topic_id, each in topics.items():
            topic = existing.get(each.name)
            if topic is not None and topic.topic_id == topic_id:
                each = each._replace(partitions=each.partitions | set(range(len(topic.partitions))))
            found[topic_id] = each
        return found

    async def delete_offsets(
        self, request: delete_messages.DeleteShareGroupOffsetsRequest
    ) -> delete_messages.DeleteShareGroupOffsetsResponse:
        """DeleteShareGroupOffsets."""
        async with self._turn(request.group_id):
            return await self._delete_offsets(request)

    async def _delete_offsets(
        self, request: delete_messages.DeleteShareGroupOffsetsRequest
    ) -> delete_messages.DeleteShareGroupOffsetsResponse:
        group_id, image = request.group_id, self._image()
        response = delete_messages.DeleteShareGroupOffsetsResponse
        named = [(topic.topic_name, image.topics.get(topic.topic_name)) for topic in request.topics]
        ids = [topic.topic_id for _, topic in named if topic is not None]

        def begin(shard: "GroupShard", now_ms: int) -> Result[Any]:
            group = shard.share.get(group_id)
            error_code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
            if group is None or error_code:
                return Result(response(error_code=error_code, error_message=error_message(error_code)))
            known = {key: each for key, each in group.states.known().items() if key in ids}
            return Result(known, shard.share.begin_deletion(group_id, list(known)).records)

        topics = await settled(
            self._groups.decide_for(group_id, begin, lambda code: response(error_code=code))
        )
        if isinstance(topics, response):
            return topics
        failed = await self._deleted(group_id, self._with_partitions(topics))
        gone = [topic_id for topic_id in topics if topic_id not in failed]
        ended = await settled(
            self._groups.decide_for(
                group_id,
                lambda shard, now_ms: Result(0, shard.share.end_deletion(group_id, gone).records),
                lambda code: code,
            )
        )
        rows = []
        for name, topic in named:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else failed.get(topic.topic_id, ended)
            )
            row = delete_messages.ResponseTopic(topic_name=name, error_code=code)
            if topic is not None:
                row.topic_id = topic.topic_id
            if code:
                row.error_message = error_message(code)
            rows.append(row)
        return response(responses=rows)

    # Altering

    async def alter_offsets(
        self, request: alter_messages.AlterShareGroupOffsetsRequest
    ) -> alter_messages.AlterShareGroupOffsetsResponse:
        """AlterShareGroupOffsets: the states of these share-partitions begin anew."""
        async with self._turn(request.group_id):
            return await self._alter_offsets(request)

    async def _alter_offsets(
        self, request: alter_messages.AlterShareGroupOffsetsRequest
    ) -> alter_messages.AlterShareGroupOffsetsResponse:
        group_id, image = request.group_id, self._image()
        response = alter_messages.AlterShareGroupOffsetsResponse
        wanted: dict[Key, int] = {}
        topics: dict[bytes, StateTopic] = {}
        for topic in request.topics:
            existing = image.topics.get(topic.topic_name)
            if existing is None:
                continue
            for row in topic.partitions:
                if 0 <= row.partition_index < len(existing.partitions) and row.start_offset >= 0:
                    wanted[Key(group_id, existing.topic_id, row.partition_index)] = row.start_offset
                    before = topics.get(existing.topic_id, StateTopic(topic.topic_name))
                    topics[existing.topic_id] = before._replace(
                        partitions=before.partitions | {row.partition_index}
                    )

        def begin(shard: "GroupShard", now_ms: int) -> Result[Any]:
            group = shard.share.get(group_id)
            error_code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
            if group is None or error_code:
                return Result(response(error_code=error_code, error_message=error_message(error_code)))
            group_epoch = group.group_epoch + 1
            return Result(
                group_epoch,
                [
                    records.states_record(group_id, group.states.asking(topics)),
                    records.group_record(group_id, group_epoch, group.metadata_hash),
                ],
            )

        group_epoch = await settled(
            self._groups.decide_for(group_id, begin, lambda code: response(error_code=code))
        )
        if isinstance(group_epoch, response):
            return group_epoch
        outcomes = await self._all(
            [calls.initialize(key, group_epoch, offset) for key, offset in wanted.items()]
        )
        codes = {key: outcome.error_code for key, outcome in zip(wanted, outcomes, strict=True)}
        done = {
            topic_id: each._replace(
                partitions=frozenset(
                    index for index in each.partitions if not codes[Key(group_id, topic_id, index)]
                )
            )
            for topic_id, each in topics.items()
        }
        ended = await settled(
            self._groups.decide_for(
                group_id,
                lambda shard, now_ms: Result(0, shard.share.confirm(group_id, done, now_ms).records),
                lambda code: code,
            )
        )
        return response(
            responses=[_altered(group_id, topic, image, codes, ended) for topic in request.topics]
        )

    # Describing

    async def describe_offsets(
        self, group_id: str, topics: Sequence[describe_messages.RequestTopic] | None
    ) -> describe_messages.ResponseGroup:
        """The start offsets of a group."""

        def look(shard: "GroupShard", now_ms: int) -> Result[Any]:
            group = shard.share.get(group_id)
            if group is None:
                return Result(_refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND))
            return Result(_initialized(group))

        found = await settled(self._groups.decide_for(group_id, look, lambda code: _refused(group_id, code)))
        if isinstance(found, describe_messages.ResponseGroup):
            return found
        image = self._image()
        asked: list[tuple[str, bytes, int]] = []
        if topics is None:
            for topic_id, each in sorted(found.items(), key=lambda item: item[1].name):
                if topic_id in image.topic_names:
                    asked += [(each.name, topic_id, index) for index in sorted(each.partitions)]
        else:
            for topic in topics:
                existing = image.topics.get(topic.topic_name)
                topic_id = existing.topic_id if existing is not None else bytes(16)
                asked += [(topic.topic_name, topic_id, index) for index in topic.partitions]
        known = [
            (name, Key(group_id, topic_id, index))
            for name, topic_id, index in asked
            if topic_id in found and index in found[topic_id].partitions
        ]
        outcomes = await self._all([calls.summary(key) for _, key in known])
        ends = await self._end_offsets([(name, key.partition) for name, key in known])
        told = {
            key: _described(key.partition, outcome, ends.get((name, key.partition)))
            for (name, key), outcome in zip(known, outcomes, strict=True)
        }
        rows: dict[tuple[str, bytes], list[describe_messages.ResponsePartition]] = {}
        for name, topic_id, index in asked:
            row = told.get(Key(group_id, topic_id, index)) or _not_known(index, image, name)
            rows.setdefault((name, topic_id), []).append(row)
        return describe_messages.ResponseGroup(
            group_id=group_id,
            topics=[
                describe_messages.ResponseTopic(topic_name=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in rows.items()
            ],
        )


def _keys(group_id: str, topics: Mapping[bytes, StateTopic]) -> list[Key]:
    return [
        Key(group_id, topic_id, index)
        for topic_id, each in topics.items()
        for index in sorted(each.partitions)
    ]


def _initialized(group: ShareGroup) -> dict[bytes, StateTopic]:
    return dict(group.states.initialized)


def _refused(group_id: str, error_code: int) -> describe_messages.ResponseGroup:
    return describe_messages.ResponseGroup(
        group_id=group_id, error_code=error_code, error_message=error_message(error_code)
    )


def _described(index: int, outcome: Outcome, end_offset: int | None) -> describe_messages.ResponsePartition:
    state = outcome.state
    code = outcome.error_code
    if code:
        return describe_messages.ResponsePartition(
            partition_index=index,
            start_offset=NOT_CHOSEN,
            error_code=code,
            error_message=error_message(code),
        )
    if state is None:
        return describe_messages.ResponsePartition(partition_index=index, start_offset=NOT_CHOSEN)
    row = describe_messages.ResponsePartition(
        partition_index=index, start_offset=state.start_offset, leader_epoch=state.leader_epoch
    )
    if end_offset is not None and state.start_offset >= 0 and state.ended_count != NOT_KNOWN:
        row.lag = max(0, end_offset - state.start_offset - state.ended_count)
    return row


def _not_known(index: int, image: Image, name: str) -> describe_messages.ResponsePartition:
    """A partition that the group does not read: no offset; one that does not exist: an error."""
    topic = image.topics.get(name)
    row = describe_messages.ResponsePartition(partition_index=index, start_offset=NOT_CHOSEN)
    if topic is None or not 0 <= index < len(topic.partitions):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        row.error_code, row.error_message = code, code.message
    return row


def _altered(
    group_id: str, topic: alter_messages.RequestTopic, image: Image, codes: Mapping[Key, int], ended: int
) -> alter_messages.ResponseTopic:
    existing = image.topics.get(topic.topic_name)
    rows = []
    for row in topic.partitions:
        code: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if existing is not None and 0 <= row.partition_index < len(existing.partitions):
            key = Key(group_id, existing.topic_id, row.partition_index)
            code = codes.get(key, ErrorCode.OFFSET_OUT_OF_RANGE) or ended
        rows.append(
            alter_messages.ResponsePartition(
                partition_index=row.partition_index,
                error_code=code,
                error_message=error_message(code) if code else None,
            )
        )
    told = alter_messages.ResponseTopic(topic_name=topic.topic_name, partitions=rows)
    if existing is not None:
        told.topic_id = existing.topic_id
    return told
