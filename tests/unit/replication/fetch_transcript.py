"""Plays a transcript to a fetch machine: lines with `>` are inputs, the indented lines after each are what
came out, and which partitions changed their state.

    > row t-0 records
      append to t-0
      t-0: fetching -> storing

A transcript is compared as a whole, so that a difference is seen in its place. Broker 2 leads all partitions.
Time stands where `at` has put it, in milliseconds; pauses have no jitter here.
"""

import logging
from types import SimpleNamespace
from typing import Any, cast

from moldau.broker.replication.following.fetch_machine import FetchMachine
from moldau.broker.replication.following.fetch_outputs import (
    Append,
    FindStart,
    Output,
    Outputs,
    Report,
    Restart,
    Truncate,
)
from moldau.broker.replication.following.followed import Followed, Position
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.following.out_of_range import NewStart
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchRequest
from moldau.common.protocol.replica_fetch import FetchedRow

LEADER = 2
PAUSE_MS_MAX = 1000
LIMITS = FetchLimits(500, 1, 1 << 20, 1 << 20)


class NoJitter:
    """In the place of `random.Random`."""

    def random(self) -> float:
        return 0.5


def fake_partition(index: int, topic: str = "t") -> Any:
    """As much of a partition as the machine and the session look at."""
    log = SimpleNamespace(latest_leader_epoch=0, log_start_offset=0)
    topic_id = topic.encode().ljust(16)
    return SimpleNamespace(topic=topic, topic_id=topic_id, index=index, log=log, log_start_saved=None)


def shown(output: Output) -> str:
    """One line about an output."""
    match output:
        case Append(followed, records):
            return f"append {'' if records else 'nothing '}to {followed.name}"
        case Truncate(followed, leader_epoch, epoch, end_offset):
            return f"truncate {followed.name} in epoch {leader_epoch}: epoch {epoch} ended at {end_offset}"
        case Restart(followed, leader_epoch, offset):
            return f"restart {followed.name} in epoch {leader_epoch} at {offset}"
        case FindStart(followed, position):
            return f"find the start of {followed.name} for epoch {position.leader_epoch} at {position.offset}"
        case Report(level, text):
            return f"{logging.getLevelName(level).lower()}: {text}"


class Player:
    """A fetch machine and the words to speak to it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.throttled: set[str] = set()
        self.rate_exceeded = False
        self.partitions: dict[str, Any] = {}
        self.states: dict[str, str] = {}
        self.truncate: Truncate | None = None
        self.searches: dict[str, Position] = {}
        self.machine = FetchMachine(
            LEADER,
            cast(Any, NoJitter()),
            pause_ms_max=lambda: PAUSE_MS_MAX,
            must_wait=lambda partition: (
                self.rate_exceeded and f"{partition.topic}-{partition.index}" in self.throttled
            ),
        )

    def play(self, transcript: str) -> str:
        """The transcript as it should be."""
        lines = []
        for line in transcript.splitlines():
            if line.startswith(">"):
                words = line[1:].split()
                lines.append(line)
                lines += [f"  {each}" for each in getattr(self, f"_{words[0]}")(words[1:])]
                lines += [f"  {each}" for each in self._changes()]
            elif not line.startswith("  "):
                lines.append(line)  # a comment, or nothing
        return "\n".join(lines)

    def _changes(self) -> list[str]:
        states = {followed.name: followed.state.value for followed in self.machine.all()}
        before, self.states = self.states, states
        changes = []
        for name in sorted(before.keys() | states.keys()):
            was, is_now = before.get(name), states.get(name, "gone")
            if was != is_now:
                changes.append(f"{name}: {is_now}" if was is None else f"{name}: {was} -> {is_now}")
        return changes

    def _partition(self, name: str) -> Any:
        if name not in self.partitions:
            topic, _, index = name.rpartition("-")
            self.partitions[name] = fake_partition(int(index), topic)
        return self.partitions[name]

    def _followed(self, name: str) -> Followed:
        partition = self._partition(name)
        followed = self.machine.find(partition.topic_id, partition.index)
        assert followed is not None
        return followed

    def _note(self, outputs: Outputs) -> list[str]:
        for output in outputs:
            if isinstance(output, Truncate):
                self.truncate = output
            elif isinstance(output, FindStart):
                self.searches[output.followed.name] = output.position
        return [shown(output) for output in outputs]

    def _at(self, words: list[str]) -> list[str]:
        """at 500: time goes on"""
        self.now_ms = float(words[0])
        self.machine.tick(self.now_ms)
        return []

    def _follow(self, words: list[str]) -> list[str]:
        """follow t-0 epoch 3 at 10"""
        fetch = FetchFrom(LEADER, int(words[2]), int(words[4]))
        self.machine.follow(self._partition(words[0]), fetch)
        return []

    def _recreate(self, words: list[str]) -> list[str]:
        """recreate t-0 epoch 1 at 0: another object for the same partition"""
        del self.partitions[words[0]]
        return self._follow(words)

    def _stop(self, words: list[str]) -> list[str]:
        self.machine.stop(self._partition(words[0]))
        return []

    def _request(self, words: list[str]) -> list[str]:
        """request: what is asked for, or when to look again"""
        machine = self.machine
        machine.tick(self.now_ms)
        if not machine.may_request(self.now_ms):
            next_ms = machine.next_ms()
            return ["nothing" if next_ms == float("inf") else f"nothing before {next_ms:.0f}"]
        if self.rate_exceeded:
            machine.hold_back()
        wait_ms = machine.wait_ms_max(LIMITS.wait_ms_max, self.now_ms)
        begun = machine.request(LIMITS, wait_ms)
        if begun is None:
            return ["nothing"]
        request, changed = begun
        for followed in changed:
            machine.row_asked(followed, request, LIMITS)
        assert machine.session_told()
        sent = FetchRequest.decode(request.encode(17), 17)
        waits = "" if wait_ms == LIMITS.wait_ms_max else f" waits {wait_ms} ms"
        lines = [f"session {sent.session_id} epoch {sent.session_epoch}{waits}"]
        for topic in sent.topics:
            name = topic.topic_id.decode().strip()
            lines += [
                f"fetch {name}-{row.partition} epoch {row.current_leader_epoch} at {row.fetch_offset}"
                for row in topic.partitions
            ]
        for forgotten in sent.forgotten_topics_data:
            name = forgotten.topic_id.decode().strip()
            lines += [f"leave out {name}-{index}" for index in forgotten.partitions]
        return lines

    def _row(self, words: list[str]) -> list[str]:
        """row t-0 records|nothing|ERROR_NAME; row t-0 diverging 2 ended 5 [own-start 3 leader-start 5]"""
        partition = self._partition(words[0])
        followed = self.machine.asked(partition.topic_id, partition.index)
        if followed is None:
            return ["dropped"]
        row, own_start = FetchedRow(0), 0
        if words[1] == "diverging":
            row = row._replace(diverging=(int(words[2]), int(words[4])))
            if len(words) > 5:
                own_start, row = int(words[6]), row._replace(log_start_offset=int(words[8]))
        elif words[1] == "records":
            row = row._replace(records=b"records")
        elif words[1] != "nothing":
            row = row._replace(error_code=ErrorCode[words[1]])
        return self._note(self.machine.row(followed, row, own_start, self.now_ms))

    def _answered(self, words: list[str]) -> list[str]:
        """answered [session 7]: all its rows were taken"""
        self.machine.answered()
        self.machine.session_answered(int(words[1]) if words else 7)
        return []

    def _failed(self, words: list[str]) -> list[str]:
        return self._note(self.machine.request_failed(" ".join(words), self.now_ms))

    def _refused(self, words: list[str]) -> list[str]:
        """refused ERROR_NAME: the whole request"""
        if self.machine.refused(ErrorCode[words[0]]):
            return ["at once again"]
        return self._failed(words)

    def _store(self, words: list[str]) -> list[str]:
        """store t-0: the next part of what came"""
        self.machine.store(self._followed(words[0]))
        return []

    def _appended(self, words: list[str]) -> list[str]:
        self.machine.appended(self._followed(words[0]))
        return []

    def _append_failed(self, words: list[str]) -> list[str]:
        """append_failed t-0 [why it is damaged]"""
        message = " ".join(words[1:]) or None
        return self._note(self.machine.append_failed(self._followed(words[0]), message, self.now_ms))

    def _not_truncated(self, words: list[str]) -> list[str]:
        assert self.truncate is not None
        return self._note(self.machine.not_truncated(self.truncate, self.now_ms))

    def _not_restarted(self, words: list[str]) -> list[str]:
        self.machine.not_restarted(self._followed(words[0]), self.now_ms)
        return []

    def _found(self, words: list[str]) -> list[str]:
        """found t-0 nothing|start 5|end 7"""
        start = None if words[1] == "nothing" else NewStart(int(words[2]), words[1] == "start")
        position = self.searches[words[0]]
        followed = self._followed(words[0])
        return self._note(self.machine.start_found(followed, position, start, self.now_ms))

    def _handling_failed(self, words: list[str]) -> list[str]:
        """handling_failed t-0 end 12"""
        self.machine.handling_failed(self._followed(words[0]), int(words[2]), self.now_ms)
        return []

    def _ask_again(self, words: list[str]) -> list[str]:
        self.machine.ask_again(self._followed(words[0]))
        return []

    def _throttle(self, words: list[str]) -> list[str]:
        """throttle t-0 t-1: exactly these"""
        self.throttled = set(words)
        return []

    def _rate(self, words: list[str]) -> list[str]:
        """rate exceeded|free"""
        self.rate_exceeded = words[0] == "exceeded"
        return []

    def _close(self, words: list[str]) -> list[str]:
        self.machine.close()
        return []
