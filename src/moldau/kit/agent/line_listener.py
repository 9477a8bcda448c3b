"""The Unix socket: a line is a message (message.py), and every line gets one answer, in order.

    ok TOPIC NUMBER          it is on the agent's disk
    ok TOPIC duplicate       its source has sent it before
    error REASON SENTENCE    it is not

The line `?status` is answered with the agent's status, JSON in one line. A line that is too long is skipped
to its end, and answered. A client that sends and never reads is not read from any more when its answers fill
the socket, or 10,000 lines wait for theirs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from typing import cast

from moldau.kit.agent.connections import Connections
from moldau.kit.agent.intake import Origin, Outcome
from moldau.kit.agent.message import BadMessage, parse
from moldau.kit.agent.reading import Reading

STATUS = b"?status"
LINE_EXTRA_BYTES = 1 << 20
"""A line in JSON with base64 is longer than its message."""


def answer_line(outcome: Outcome) -> bytes:
    """The answer to a message, as a line."""
    if outcome.reason:
        return f"error {outcome.reason} {outcome.text}\n".encode(errors="replace")
    number = str(outcome.number) if outcome.number >= 0 else "duplicate"
    return f"ok {outcome.topic} {number}\n".encode()


class LineConnection(asyncio.Protocol):
    """One client of the socket."""

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self._transport: asyncio.Transport | None = None
        self._partial = bytearray()
        self._skipping = False
        self._origin = Origin()
        self._slots: deque[list[bytes]] = deque()  # answers in order; an empty list is still awaited
        self._reading = Reading()
        self._ended = False
        self.partial_since_seconds = float("inf")

    # -- asyncio calls these -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses of asyncio's
        self._reading.begin(self._transport)
        if not self._all.add(self):
            self._transport.write(b"error busy too many connections: try again later\n")
            self._transport.close()
        elif not self._all.intake.has_room:
            self.pause()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._reading.end()
        self._all.remove(self)
        self._all.partial_bytes -= len(self._partial)
        self._partial.clear()

    def data_received(self, data: bytes) -> None:
        lines = data.split(b"\n")
        rest = lines.pop()
        for line in lines:
            if self._partial:
                line = bytes(self._partial) + line
                self._set_partial(b"")
            if self._skipping:
                self._skipping = False
            else:
                self._take(line)
        if rest and not self._skipping:
            self._keep(rest)

    def eof_received(self) -> bool:
        """The client has sent everything (`nc -N`): a last line needs no newline; then answer and close."""
        if self._partial and not self._skipping:
            line = bytes(self._partial)
            self._set_partial(b"")
            self._take(line)
        self._ended = True
        self._send_answers()
        return True

    def pause_writing(self) -> None:
        self._reading.stop("answers")

    def resume_writing(self) -> None:
        self._reading.go_on("answers")

    # -- lines ---------------------------------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        line = line.rstrip(b"\r")
        if not line:
            return
        slot: list[bytes] = []
        self._slots.append(slot)
        if line == STATUS:
            slot.append(json.dumps(self._all.status()).encode() + b"\n")
            self._send_answers()
            return
        if len(self._slots) >= self._all.settings.unanswered_max:
            self._reading.stop("slots")

        def answer(outcome: Outcome) -> None:
            slot.append(answer_line(outcome))
            if self._slots and self._slots[0] is slot:
                self._send_answers()

        try:
            message = parse(line, time.time_ns() // 1_000_000)
        except BadMessage as problem:
            self._all.counters.of("").refused["bad_message"] += 1
            answer(Outcome("", reason="bad_message", text=str(problem)))
        else:
            self._all.intake.submit(message, answer, self._origin)

    def _keep(self, rest: bytes) -> None:
        """Hold a line's beginning until its end comes."""
        limit = self._all.settings.message_bytes_max + LINE_EXTRA_BYTES
        if len(self._partial) + len(rest) > limit:
            self._set_partial(b"")
            self._skipping = True
            self._all.counters.of("").refused["too_large"] += 1
            self._slots.append([f"error too_large a line may have {limit} bytes\n".encode()])
            self._send_answers()
        elif not self._all.may_hold(len(rest)):
            self.close("too much unfinished input: send whole lines")
        else:
            self._partial += rest
            self.partial_since_seconds = time.monotonic()

    def _set_partial(self, content: bytes) -> None:
        self._all.partial_bytes += len(content) - len(self._partial)
        self._partial = bytearray(content)
        self.partial_since_seconds = float("inf")

    def _send_answers(self) -> None:
        ready = []
        while self._slots and self._slots[0]:
            ready.append(self._slots.popleft()[0])
        if self._transport is None:
            return
        if ready:
            self._transport.write(b"".join(ready))
        if len(self._slots) < self._all.settings.unanswered_max // 2:
            self._reading.go_on("slots")
        if self._ended and not self._slots:
            self._transport.close()

    # -- flow ----------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading: the intake is full."""
        self._reading.stop("intake")

    def resume(self) -> None:
        """Read again."""
        self._reading.go_on("intake")

    def close(self, why: str) -> None:
        """Answer with an error and close."""
        if self._transport is not None:
            self._transport.write(f"error closed {why}\n".encode())
            self._transport.close()
