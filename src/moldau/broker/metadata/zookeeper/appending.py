"""Appends of one broker: packed, fenced, and followed up when their outcome is in doubt.

    give way -> append (append.py) -> made: deliver it, perhaps write a snapshot
                                   -> overtaken, deposed: deliver what did it, then say so
                                   -> the session ended: ask in the next one whether it was made

Not here: the transaction itself (append.py), delivering (following.py).
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence

from kazoo import exceptions as zk

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.store import (
    ControllerFenced,
    MetadataStoreError,
    NoSession,
    OutcomeUnknown,
    VersionConflict,
)
from moldau.broker.metadata.zookeeper.append import Append, Deposed, Forgotten, Overtaken, Seat
from moldau.broker.metadata.zookeeper.append_turns import AppendTurns
from moldau.broker.metadata.zookeeper.following import Following
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import Head, LogReader, Offload
from moldau.broker.metadata.zookeeper.options import Options
from moldau.broker.metadata.zookeeper.payload import entry_in_slices, fresh_id, pack
from moldau.broker.metadata.zookeeper.seat import Held, Seats
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Session, SessionOver
from moldau.broker.metadata.zookeeper.sessions import Sessions
from moldau.broker.metadata.zookeeper.snapshots import Snapshots
from moldau.common.core.slow_lane import SlowLane, all_steps
from moldau.common.core.timers import Timers

log = logging.getLogger("moldau.metadata")

_PACKED_HERE_BYTES_MAX = 65_536
_LOOK_AGAIN_MS = 50
_FORGOTTEN = "the connection to ZooKeeper was lost for so long that a snapshot has replaced what was written"


class Appending:
    """The appends of one broker."""

    def __init__(
        self,
        options: Options,
        layout: Layout,
        sessions: Sessions,
        following: Following,
        seats: Seats,
        held: Held,
        turns: AppendTurns,
        *,
        source: random.Random,
        timers: Timers,
        offload: Offload,
        lane: SlowLane | None,
    ) -> None:
        self.options = options
        self._layout = layout
        self._sessions = sessions
        self._following = following
        self._seats = seats
        self._held = held
        self._turns = turns
        self._random = source
        self._timers = timers
        self._offload = offload
        self._lane = lane
        self.node_version_offset = 0
        """How far the log's version is ahead of its head node's."""
        self._snapshotting: asyncio.Task[None] | None = None
        self._appending = 0
        self._appends_done = asyncio.Event()

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        """Append one entry if the log is still at `version`."""
        session = await self._sessions.reached()
        seat = self._held.seat if controller_epoch is not None else None
        if controller_epoch is not None and (seat is None or seat.epoch != controller_epoch):
            raise ControllerFenced(controller_epoch, await self._last_epoch(controller_epoch))
        self._appending += 1
        try:
            await self._append(session, version, changes, seat)
        finally:
            self._appending -= 1
            self._appends_done.set()
        return version + 1

    async def _append(
        self, session: Session, version: int, changes: Sequence[Change], seat: Seat | None
    ) -> None:
        steps = entry_in_slices(changes)
        payload = all_steps(steps) if self._lane is None else await self._lane.slices().run(steps)
        payload_id = fresh_id(self._random)
        if len(payload) <= _PACKED_HERE_BYTES_MAX:
            packed = pack(payload_id, payload, version + 1)
        else:
            packed = await self._offload(lambda: pack(payload_id, payload, version + 1))
        if seat is None:
            await self._turns.give_way()
        if self._following.is_followed and self._following.version > version:
            raise VersionConflict(version, self._following.version)
        before_bytes = self._following.head.log_bytes
        log_bytes = before_bytes + packed.size_bytes
        append = Append(self._layout, version, changes, packed, seat, log_bytes)
        try:
            waiting = await append.make(session, version - self.node_version_offset)
            self._turns.appended(waiting or 0)
        except SessionOver as error:
            if not append.in_doubt:
                raise NoSession(str(error)) from error
            await self._find_out(append, version, error)
        except Overtaken:
            await self._forget(append, session)
            await self._turns.overtaken(session)
            raise VersionConflict(version, await self._following.catch_up(version)) from None
        except Deposed:
            await self._forget(append, session)
            self._held.seat = None
            held = -1 if seat is None else seat.epoch
            raise ControllerFenced(held, await self._last_epoch(held)) from None
        except Forgotten:
            raise OutcomeUnknown(_FORGOTTEN) from None
        except (zk.KazooException, MetadataStoreError) as error:
            what = "" if isinstance(error, MetadataStoreError) else f"{type(error).__name__} "
            raise OSError(f"ZooKeeper refused a metadata entry: {what}{error}") from error
        if self._following.head.version <= version:
            self._following.head = Head(version + 1, version + 1 - self.node_version_offset, log_bytes)
        options = self.options
        if (version + 1) % options.snapshot_entries == 0 or (
            before_bytes // options.snapshot_bytes != log_bytes // options.snapshot_bytes
        ):
            self._write_snapshot()
        self._following.deliver_entry(version + 1, changes)
        if self._following.is_followed and self._following.version <= version:
            with contextlib.suppress(NoSession):  # it was made all the same; the next session delivers it
                await self._following.catch_up(version)

    async def _find_out(self, append: Append, version: int, error: SessionOver) -> None:
        """The session ended while an append was under way: was it made? VersionConflict, OutcomeUnknown.

        It begins the next session itself: who would register again may wait for this very append.
        """
        while not self._sessions.closed:
            try:
                session = self._sessions.present or await self._sessions.begin()
                if await append.is_made(session):
                    return
                if await append.is_overtaken(session):
                    raise VersionConflict(version, await self._following.catch_up(version))
            except (SessionOver, ConnectionAway):
                continue
            except Forgotten:
                raise OutcomeUnknown(_FORGOTTEN) from None
            break  # the former session's request may still be on its way
        raise OutcomeUnknown(
            f"the connection to ZooKeeper was lost while the metadata was written, and {error}"
        )

    async def _forget(self, append: Append, session: Session) -> None:
        try:
            await append.remove_parts(session)
        except (ConnectionAway, SessionOver):
            return  # removed later, as a crashed writer's

    async def _last_epoch(self, held: int) -> int:
        """The epoch of the last controller."""
        while (session := self._sessions.present) is not None:
            try:
                await session.sync(self._layout.controller_epoch)
                return (await self._seats.epoch(session)).epoch
            except (ConnectionAway, SessionOver):
                continue
        return held

    def _write_snapshot(self) -> None:
        session = self._sessions.present
        if session is None or (self._snapshotting is not None and not self._snapshotting.done()):
            return
        reader = LogReader(session, self._layout, self._offload)
        snapshots = Snapshots(session, self._layout, reader, self._offload, self._random)

        async def write() -> None:
            try:
                await snapshots.write(self.options.kept_entries)
            except (ConnectionAway, SessionOver) as error:
                log.info("the metadata's snapshot was not finished: %s", error)
            except Exception:
                log.exception("the metadata's snapshot failed; the next one comes")

        self._snapshotting = asyncio.get_running_loop().create_task(write())

    async def snapshot_written(self) -> None:
        """No snapshot is being written any more."""
        if self._snapshotting is not None:
            await asyncio.wait([self._snapshotting])

    async def finish(self, session: Session | None) -> None:
        """Wait for the append that is under way, while the ensemble can be reached."""
        while self._appending and session is not None and session.up:
            self._appends_done.clear()
            timer = self._timers.call_later(
                _LOOK_AGAIN_MS, self._appends_done.set
            )  # or the connection was lost
            await self._appends_done.wait()
            timer.cancel()

    async def stop(self) -> None:
        """Write no snapshot to its end."""
        if self._snapshotting is not None and not self._snapshotting.done():
            self._snapshotting.cancel()
            await asyncio.wait([self._snapshotting])
