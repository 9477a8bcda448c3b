"""Bounds the bytes that are held for connections which have not logged in.

A login is a few frames of some kilobytes, done within milliseconds. Who leaves half a frame lying holds
memory without having said who he is; when such connections reach their share of the budget
(core/client_state.py), the one whose frame began first is closed. Its bytes do not count towards
`queued.max.request.bytes`, so that clients that are logged in never wait for them.
"""

from collections import OrderedDict
from typing import Protocol

from moldau.common.core.client_state import Account

CONNECTION_BYTES = 512  # of the buffer's objects


class LoginHolder(Protocol):
    """The part of a connection that is used here."""

    def held_too_long(self, sentence: str) -> None:
        """Close the connection and release its memory; the message says why."""


class LoginFrames:
    """The buffers of all connections that have not logged in, the oldest first."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._held: OrderedDict[LoginHolder, int] = OrderedDict()
        account.evict = self._evict

    def hold(self, connection: LoginHolder, size_bytes: int) -> None:
        """The connection's frame has a buffer of this size now; others are closed if there is no room."""
        size_bytes += CONNECTION_BYTES
        added_bytes = size_bytes - self._held.get(connection, 0)
        while self._held and not self._account.admits(added_bytes):
            oldest = next(iter(self._held))
            self._close(oldest)
            if oldest is connection:
                return
        self._held[connection] = size_bytes
        self._account.change(added_bytes)

    def give_back(self, connection: LoginHolder) -> None:
        """The frame is handled, or its connection gone."""
        size_bytes = self._held.pop(connection, 0)
        if size_bytes:
            self._account.change(-size_bytes)

    def _evict(self, size_bytes: int) -> None:
        while size_bytes > 0 and self._held:
            oldest, held_bytes = next(iter(self._held.items()))
            self._close(oldest)
            size_bytes -= held_bytes

    def _close(self, connection: LoginHolder) -> None:
        self.give_back(connection)
        self._account.evicted()
        connection.held_too_long(
            "it had not logged in and left a frame unfinished, while the share of "
            "moldau.client.state.max.bytes for logins was used up"
        )
