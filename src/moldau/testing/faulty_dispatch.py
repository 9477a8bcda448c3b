"""Puts a test's faults between connections and handlers.

frame ──> a fault of its API, and of its topic? ──no──> the broker's own dispatch
                 │ yes: answered with an error, carried out without an answer, or handled later
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any

from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.handlers.parts.exchange import Slot, kept
from moldau.broker.handlers.parts.registry import TABLE, Entry
from moldau.broker.server.connection import Connection
from moldau.broker.server.dispatch import API_VERSIONS, Dispatch
from moldau.broker.server.interfaces import REPEATED, Parts, PeerError
from moldau.common.protocol.frames import frame_response, parse_request_header
from moldau.common.protocol.wire import MalformedMessage
from moldau.testing.error_answers import refusal
from moldau.testing.faults import DELAY, LOSE, Fault, Faults, topics_in

if TYPE_CHECKING:
    from moldau.broker.security.login.logins import Logins

_HEAD = struct.Struct(">hhi").unpack_from


def faulty_dispatch(faults: Faults) -> type[Dispatch]:
    """The broker's dispatch, with faults before it."""

    class FaultyDispatch(Dispatch):
        """One broker's."""

        def __init__(self, broker: Broker, logins: Logins | None = None) -> None:
            super().__init__(broker, logins)
            self._faulty_broker = broker

        def request(self, connection: Connection, view: memoryview, position: int, end: int) -> Parts | None:
            """Serve a frame, or let it meet its fault."""
            if end - position >= 12:
                api_key, version, correlation_id = _HEAD(view, position + 4)
                if faults.concern(api_key):
                    found = self._fault(view[position + 4 : end], api_key, version)
                    if found is not None:
                        return self._meet(connection, view, position, end, correlation_id, *found)
            return super().request(connection, view, position, end)

        def _fault(self, frame: memoryview, api_key: int, version: int) -> tuple[Fault, Entry, Any] | None:
            entry = TABLE.get(api_key)
            if entry is None or not entry.min_version <= version <= entry.max_version:
                return None
            try:
                header = parse_request_header(frame)
                request = entry.request_type.decode(bytes(frame), version, header.body_offset)
            except MalformedMessage:
                return None  # the broker says so
            if getattr(request, "acks", None) == 0:
                return None
            fault = faults.take(api_key, topics_in(request, self._faulty_broker))
            return None if fault is None else (fault, entry, request)

        def _meet(
            self,
            connection: Connection,
            view: memoryview,
            position: int,
            end: int,
            correlation_id: int,
            fault: Fault,
            entry: Entry,
            request: Any,
        ) -> Parts | None:
            version = _HEAD(view, position + 4)[1]
            if fault.kind == LOSE:
                # Its answer stands behind this place, which nobody fills.
                connection.park(blocking=True)
                super().request(connection, view, position, end)
                # In the next turn: what was staged in this one is written by then.
                asyncio.get_running_loop().call_soon(connection.abort)
                return None
            if fault.kind == DELAY:
                frame = memoryview(kept(view[position:end]))
                slot = connection.park(blocking=True)
                asyncio.get_running_loop().call_later(fault.seconds, self._go_on, connection, slot, frame)
                return None
            response = refusal(request, version, fault.error_code)
            flexible = version >= entry.flexible_from and entry.api_key != API_VERSIONS
            return frame_response(correlation_id, flexible, response.encode(version))

        def _go_on(self, connection: Connection, slot: Slot, frame: memoryview) -> None:
            if connection.closed:
                return
            try:
                parts = super().request(connection, frame, 0, len(frame))
            except PeerError as error:
                connection.refuse(error)
                return
            # What is answered later still has a place of its own by now, behind this one.
            slot.fill(None if parts is REPEATED else parts)

    return FaultyDispatch
