"""Offsets of groups that follow: which are committed here, and when again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.metadata.mirrors import MirrorLink, MirrorTopic
from moldau.broker.mirror.groups import GroupRefused, GroupRow, GroupSync
from moldau.common.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

LINK = MirrorLink("link", {"bootstrap.servers": "localhost:1", "topics": ".*"})
HOUR_MS = 3_600_000.0


class World:
    """A link that mirrors the topic `t`, and a coordinator that notes what is committed."""

    def __init__(self) -> None:
        self.now_ms = 1.0
        self.committed: list[str] = []
        image = EMPTY_IMAGE._replace(
            mirrors={"t": MirrorTopic("link", "t")}, topics={"__consumer_offsets": None}
        )
        parts: Any = SimpleNamespace(
            image=lambda: image,
            clock=SimpleNamespace(monotonic_ms=lambda: self.now_ms),
            groups=lambda: SimpleNamespace(offset_commit=self._commit),
        )
        self.sync = GroupSync(parts, LINK)

    def _commit(self, request: OffsetCommitRequest, context: object) -> OffsetCommitResponse:
        self.committed.append(request.group_id)
        return OffsetCommitResponse(topics=[])

    def write(self, offset: int) -> list[str]:
        """Which groups are committed for this offset of group g."""
        self.committed.clear()
        asyncio.run(self.sync._write("g", [GroupRow("g", "t", 0, offset, offset)]))
        return list(self.committed)


def test_an_offset_that_does_not_move_is_committed_again_before_it_expires() -> None:
    world = World()
    assert (world.write(5), world.write(5)) == (["g"], [])
    world.now_ms += HOUR_MS
    assert (world.write(5), world.write(5)) == (["g"], [])
    assert world.write(6) == ["g"]


def test_a_group_that_the_source_refuses_holds_up_no_other() -> None:
    world = World()
    sync: Any = world.sync

    async def groups() -> list[str]:
        return ["bad", "good"]

    async def committed(group: str, local: object) -> list[GroupRow]:
        if group == "bad":
            raise GroupRefused("GROUP_AUTHORIZATION_FAILED for the group bad")
        return [GroupRow(group, "t", 0, 5, 5)]

    async def clamped(rows: list[GroupRow]) -> list[GroupRow]:
        return rows

    sync._groups, sync._committed, sync._clamped = groups, committed, clamped
    sync._coordinates = lambda group: True
    assert "group bad" in asyncio.run(sync._round())
    assert (world.committed, list(sync.rows)) == (["good"], [("good", "t", 0)])
