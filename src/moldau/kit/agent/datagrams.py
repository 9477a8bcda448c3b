"""The UDP port: each line of a datagram is a message; nothing is answered.

Nobody is told that a message was refused, so all that is refused here is discarded: counted, and reported.
A flood costs time and no memory: while the intake is full, datagrams are discarded unparsed.
"""

from __future__ import annotations

import asyncio
import time

from moldau.kit.agent.counters import Counters
from moldau.kit.agent.intake import Intake, Origin, Outcome
from moldau.kit.agent.message import BadMessage, Message, parse


class Datagrams(asyncio.DatagramProtocol):
    """The receiver of all datagrams."""

    def __init__(self, intake: Intake, counters: Counters) -> None:
        self._intake = intake
        self._counters = counters

    def datagram_received(self, data: bytes, address: object) -> None:
        for line in data.split(b"\n"):
            if not line:
                continue
            if not self._intake.has_room:
                self._counters.discard("", "intake_full", line)
                continue
            try:
                message = parse(line, time.time_ns() // 1_000_000)
            except BadMessage:
                self._counters.discard("", "bad_message", line)
            else:
                self._submit(message)

    def _submit(self, message: Message) -> None:
        def answer(outcome: Outcome) -> None:
            if outcome.reason:
                self._counters.of(message.topic).refused[outcome.reason] -= 1  # it is counted as discarded
                self._counters.discard(message.topic, outcome.reason, message.value or b"")

        self._intake.submit(message, answer, Origin())
