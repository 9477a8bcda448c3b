"""Committed offsets of groups follow the source's: written where the group has no members here.

    source: ListGroups at every broker ──> those that match, and that this broker coordinates here
            ──> FindCoordinator, OffsetFetch ──> clamped to the mirrored end ──> committed here

Every broker does that for the groups that it coordinates, so that nothing is sent between brokers but where a
partition's end is. Offsets need no translation. One that lies behind what is mirrored is clamped to the end
here: the group would read again from there, not lose its place; how much is told with the group (`GroupRow`).
Only mirrors that are pulled are written to: after a failover the group's own commits count.

The commit is that of a client that is no member, which a group with members refuses: their own offsets stay.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.broker.metadata.mirrors import MirrorLink
from moldau.broker.mirror.link_settings import matches, mirror_settings
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.mirror.source import SourceCluster
from moldau.broker.peers.peers import PeerError
from moldau.common.core.waiting import settled
from moldau.common.protocol.errors import ErrorCode, error_name
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.common.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

log = logging.getLogger("moldau.mirror")

_ONE_GROUP_MAX = 7
_ONE_KEY_MAX = 3
_COMMIT_VERSION = 9
_CONSUMER = "consumer"
_LATEST = -1
_ASK_MS = 5_000
_WRITE_AGAIN_MS = 3_600_000.0
"""An offset that does not move is committed again so often, or it would expire (offsets.retention.minutes)
while the group is at work at the source.
"""


class GroupRefused(PeerError):
    """The source says nothing of one group; of others it may."""


class GroupRow(NamedTuple):
    """What a group has committed at the source, and what that is here."""

    group: str
    topic: str
    partition: int
    source_offset: int
    offset: int
    """What was written here: the same, or the mirrored end; -1: nothing, since the group has members."""
    leader_epoch: int = -1
    metadata: str | None = ""


class _Mirror:
    """Who commits: a client of the protocol that is no member."""

    api_version = _COMMIT_VERSION
    client_id = "moldau-mirror"
    client_host = "/127.0.0.1"
    sees_topic = None


class GroupSync:
    """Follows the groups of one link until `close`."""

    def __init__(self, parts: MirrorParts, link: MirrorLink) -> None:
        """CredentialsError, SettingError."""
        self.problem = ""
        self.rows: dict[tuple[str, str, int], GroupRow] = {}
        """The groups that this broker coordinates, in the last round."""
        self._parts = parts
        self._settings = mirror_settings(link.settings)
        self._link = link.name
        self._source = SourceCluster(parts, link.name, link.settings)
        self._written: dict[tuple[str, str, int], tuple[int, float]] = {}
        """What was committed here, and when (monotonic)."""
        self._coordinators: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self) -> None:
        """Begin, if the link's settings ask for it."""
        if self._settings.sync_group_offsets_enabled:
            self._task = self._parts.host.loop.create_task(self._run())

    def close(self) -> None:
        """End."""
        self._closed = True
        self._source.close()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        pause_ms = self._settings.sync_group_offsets_interval_seconds * 1000
        while not self._closed:
            try:
                self.problem = await self._round()
            except PeerError as error:
                self.problem = f"groups cannot be read at the source: {error}"
            except Exception:
                log.exception("following the groups of the link %s failed: this is a bug", self._link)
            await self._parts.pause(pause_ms)

    # One round

    async def _round(self) -> str:
        """Follow every group once; what is wrong with some of them."""
        local = self._local_names()
        if not local:
            self.rows = {}
            return ""
        found = await self._groups()
        if not found:
            return ""
        if GROUP_OFFSETS_TOPIC not in self._parts.image().topics:
            await self._parts.controller.auto_create_topics([GROUP_OFFSETS_TOPIC])
        rows: dict[tuple[str, str, int], GroupRow] = {}
        problem = ""
        for group in found:
            if self._coordinates(group):
                try:
                    committed = await self._committed(group, local)
                except GroupRefused as error:
                    problem = problem or str(error)
                    continue
                for row in await self._write(group, await self._clamped(committed)):
                    rows[row.group, row.topic, row.partition] = row
        self.rows = rows
        if len(self._written) > 2 * len(rows):
            self._written = {key: each for key, each in self._written.items() if key in rows}
        return problem

    def _local_names(self) -> dict[str, str]:
        """From a topic's name at the source to that here."""
        mirrors = self._parts.image().mirrors
        return {
            mirror.source: name
            for name, mirror in mirrors.items()
            if mirror.link == self._link and mirror.is_pulled()
        }

    def _coordinates(self, group: str) -> bool:
        groups = self._parts.groups()
        topic = self._parts.image().topics.get(GROUP_OFFSETS_TOPIC)
        index = groups.partition_for(group)
        return (
            topic is not None
            and index < len(topic.partitions)
            and topic.partitions[index].leader == self._parts.node_id
        )

    async def _groups(self) -> list[str]:
        """The groups that match, of all brokers of the source."""
        await self._source.topics([])  # who its brokers are
        found: dict[str, None] = {}
        for node_id in self._source.brokers():
            answer: ListGroupsResponse = await self._source.send(node_id, ListGroupsRequest())
            for each in answer.groups:
                if each.protocol_type in ("", _CONSUMER) and matches(
                    each.group_id, self._settings.groups, self._settings.groups_exclude
                ):
                    found[each.group_id] = None
        return sorted(found)

    async def _committed(self, group: str, local: Mapping[str, str]) -> list[GroupRow]:
        """What the group has committed at the source of mirrored topics, with their names here."""
        answer = await self._ask_coordinator(group)
        rows = []
        for topic in answer.topics:
            name = local.get(topic.name)
            for each in topic.partitions if name is not None else ():
                if each.committed_offset >= 0 and not each.error_code and name is not None:
                    rows.append(
                        GroupRow(
                            group,
                            name,
                            each.partition_index,
                            each.committed_offset,
                            each.committed_offset,
                            each.committed_leader_epoch,
                            each.metadata,
                        )
                    )
        return rows

    async def _ask_coordinator(self, group: str) -> OffsetFetchResponse:
        node_id = self._coordinators.get(group)
        if node_id is None:
            found: FindCoordinatorResponse = await self._source.ask_any(
                FindCoordinatorRequest(key=group), version_max=_ONE_KEY_MAX
            )
            if found.error_code:
                text = (
                    f"the coordinator of the group {group} is not known there: {error_name(found.error_code)}"
                )
                raise GroupRefused(text)
            node_id = self._coordinators[group] = found.node_id
        request = OffsetFetchRequest(group_id=group, topics=None)
        try:
            answer: OffsetFetchResponse = await self._source.send(
                node_id, request, version_min=2, version_max=_ONE_GROUP_MAX
            )
        except PeerError:
            self._coordinators.pop(group, None)
            raise
        if answer.error_code:
            self._coordinators.pop(group, None)
            raise GroupRefused(f"{error_name(answer.error_code)} for the group {group}")
        return answer

    async def _clamped(self, rows: list[GroupRow]) -> list[GroupRow]:
        """No offset lies behind what is mirrored; of a partition whose end is not known, none is written."""
        clamped = []
        for row in rows:
            end_offset = await self._end_offset(row.topic, row.partition)
            if end_offset is not None:
                clamped.append(row._replace(offset=min(row.offset, end_offset)))
        return clamped

    async def _end_offset(self, topic: str, index: int) -> int | None:
        partition = self._parts.replicas.partition(topic, index)
        if partition is not None and partition.leads:
            return partition.high_watermark
        known = self._parts.image().topics.get(topic)
        if known is None or index >= len(known.partitions) or known.partitions[index].leader < 0:
            return None
        row = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])])
        try:
            answer = await self._parts.peers.send(
                known.partitions[index].leader, request, timeout_ms=_ASK_MS, version_min=1
            )
        except PeerError:
            return None
        told = answer.topics[0].partitions[0]
        return None if told.error_code or told.offset < 0 else int(told.offset)

    def _is_written(self, row: GroupRow, now_ms: float) -> bool:
        offset, written_ms = self._written.get((row.group, row.topic, row.partition), (-1, 0.0))
        return offset == row.offset and now_ms - written_ms < _WRITE_AGAIN_MS

    async def _write(self, group: str, rows: list[GroupRow]) -> list[GroupRow]:
        """Commit what differs from what was committed last, or was committed long ago."""
        local = set(self._local_names().values())  # a failover may have come meanwhile
        rows = [row for row in rows if row.topic in local]
        now_ms = self._parts.clock.monotonic_ms()
        due = [row for row in rows if not self._is_written(row, now_ms)]
        if not due:
            return rows
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for row in due:
            topic = topics.setdefault(row.topic, OffsetCommitRequestTopic(name=row.topic, partitions=[]))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=row.partition,
                    committed_offset=row.offset,
                    committed_leader_epoch=row.leader_epoch,
                    committed_metadata=row.metadata,
                )
            )
        request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))
        answer = await settled(self._parts.groups().offset_commit(request, _Mirror()))
        refused = set()
        for told in answer.topics:
            for each in told.partitions:
                if each.error_code == ErrorCode.NONE:
                    continue
                refused.add((told.name, each.partition_index))
        for row in due:
            key = (group, row.topic, row.partition)
            if (row.topic, row.partition) in refused:
                self._written.pop(key, None)
            else:
                self._written[key] = (row.offset, now_ms)
        return [row._replace(offset=-1) if (row.topic, row.partition) in refused else row for row in rows]
