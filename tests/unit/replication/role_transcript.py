"""Plays a transcript to a role: lines with `>` are inputs, the indented lines after each are what came out.

    > become leader epoch 3 isr 1 2 of 1 2
      wake fetches
    > append a to 5

A transcript is compared as a whole, so that a difference is seen in its place. Node 1 is the role's own. Time
stands where `at` has put it, in milliseconds.
"""

from collections.abc import Callable

from moldau.broker.metadata.image import NO_LEADER, PartitionState
from moldau.broker.replication.role import Role
from moldau.broker.replication.role_outputs import (
    AskInSync,
    FetchFrom,
    HighWatermark,
    Output,
    Outputs,
    Settle,
    StopFetching,
    TruncateTo,
    WakeFetches,
)
from moldau.common.protocol.errors import ErrorCode

LAG_MAX_MS = 1000


def shown(output: Output) -> str:
    """One line about an output."""
    match output:
        case HighWatermark(before, after):
            return f"high watermark {before} -> {after}"
        case Settle(waiters, error_code):
            return f"settle {' '.join(waiters)}: {ErrorCode(error_code).name if error_code else 'ok'}"  # type: ignore[call-arg]
        case WakeFetches():
            return "wake fetches"
        case TruncateTo(offset):
            return f"truncate to {offset}"
        case AskInSync(in_sync, epochs, leader_epoch, partition_epoch):
            members = " ".join(
                f"{node}" if epoch < 0 else f"{node}@{epoch}"
                for node, epoch in zip(in_sync, epochs, strict=True)
            )
            return f"ask for isr {members} on epoch {leader_epoch}.{partition_epoch}"
        case FetchFrom(leader, leader_epoch, offset):
            return f"fetch from {leader} epoch {leader_epoch} at {offset}"
        case StopFetching():
            return "stop fetching"


class Player:
    """A role and the words to speak to it."""

    def __init__(self) -> None:
        self.role = Role(
            1, high_watermark=0, written_end_offset=0, flushed_end_offset=0, lag_max_ms=LAG_MAX_MS
        )
        self.now_ms = 0.0
        self.end_offset = 0
        self.asked: AskInSync | None = None

    def play(self, transcript: str) -> str:
        """The transcript as it should be."""
        lines = []
        for line in transcript.splitlines():
            if line.startswith(">"):
                lines.append(line)
                words = line[1:].split()
                command: Callable[[list[str]], Outputs] = getattr(self, f"_{words[0]}")
                for output in command(words[1:]):
                    if isinstance(output, AskInSync):
                        self.asked = output
                    lines.append(f"  {shown(output)}")
            elif not line.startswith("  ") and line.strip():
                lines.append(line)  # a comment
            elif not line.strip():
                lines.append("")
        return "\n".join(lines)

    def _open(self, words: list[str]) -> Outputs:
        """open high-watermark 3 end 10 [flushed 8]"""
        told = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        self.end_offset = told["end"]
        self.role = Role(
            1,
            high_watermark=told["high-watermark"],
            written_end_offset=told["end"],
            flushed_end_offset=told.get("flushed", told["end"]),
            lag_max_ms=LAG_MAX_MS,
        )
        return ()

    def _settings(self, words: list[str]) -> Outputs:
        """settings min-isr 2 [group]"""
        return self.role.configured(int(words[1]), "group" in words)

    def _at(self, words: list[str]) -> Outputs:
        """at 500: no input, time goes on"""
        self.now_ms = float(words[0])
        return ()

    def _tick(self, words: list[str]) -> Outputs:
        """tick 500"""
        self.now_ms = float(words[0])
        return self.role.tick(self.now_ms)

    def _become(self, words: list[str]) -> Outputs:
        """become leader|follower of 2|leaderless epoch 3[.1] isr 1 2 [of 1 2 3]"""
        leader = {"leader": 1, "leaderless": NO_LEADER}.get(words[0], -2)
        if leader == -2:
            del words[1]
            leader = int(words.pop(1))
        leader_epoch, _, partition_epoch = words[2].partition(".")
        rest = words[4:]
        split = rest.index("of") if "of" in rest else len(rest)
        in_sync = tuple(map(int, rest[:split]))
        replicas = tuple(map(int, rest[split + 1 :])) or in_sync
        state = PartitionState(
            leader, int(leader_epoch), int(partition_epoch or leader_epoch), replicas, in_sync
        )
        return self.role.become(state, self.end_offset, self.now_ms)

    def _append(self, words: list[str]) -> Outputs:
        """append a to 5 [acks 1] [timeout 100]"""
        told = dict(zip(words[3::2], map(int, words[4::2]), strict=True))
        self.end_offset = max(self.end_offset, int(words[2]))
        return self.role.appended(int(words[2]), words[0], told.get("acks", -1), told.get("timeout"))

    def _written(self, words: list[str]) -> Outputs:
        return self.role.written(int(words[0]))

    def _flushed(self, words: list[str]) -> Outputs:
        return self.role.flushed(int(words[0]))

    def _lost(self, words: list[str]) -> Outputs:
        """lost from 5: the write failed"""
        self.end_offset = int(words[1])
        return self.role.write_failed(self.end_offset)

    def _fetch(self, words: list[str]) -> Outputs:
        """fetch by 2 at 5 [broker 7] [ineligible]"""
        broker_epoch = int(words[words.index("broker") + 1]) if "broker" in words else -1
        refusal = self.role.followers.refusal(int(words[1]), broker_epoch, -1)
        if refusal:
            return (Settle(["the fetch"], refusal),)
        return self.role.follower_fetched(
            int(words[1]), int(words[3]), broker_epoch, "ineligible" not in words, self.now_ms
        )

    def _answer(self, words: list[str]) -> Outputs:
        """answer ok|ERROR_NAME"""
        asked = self.asked
        assert asked is not None
        state = None
        error_code = 0
        if words[0] == "ok":
            role = self.role
            state = PartitionState(
                1, asked.leader_epoch, asked.partition_epoch + 1, role.replicas, asked.in_sync
            )
        else:
            error_code = ErrorCode[words[0]]
        return self.role.in_sync_change_answered(asked, error_code, state, self.now_ms)

    def _replicated(self, words: list[str]) -> Outputs:
        """replicated to 8 high-watermark 5"""
        self.end_offset = int(words[1])
        return self.role.replicated(self.end_offset, int(words[3]))

    def _diverged(self, words: list[str]) -> Outputs:
        """diverged leader 4 after 2 ended 6 here 2 ended 8"""
        return self.role.diverged(int(words[1]), int(words[3]), int(words[5]), int(words[7]), int(words[9]))

    def _truncated(self, words: list[str]) -> Outputs:
        """truncated 6; truncated 6 unsafe"""
        self.end_offset = int(words[0])
        return self.role.truncated(self.end_offset, safe="unsafe" not in words)

    def _restarted(self, words: list[str]) -> Outputs:
        """restarted at 20"""
        self.end_offset = int(words[1])
        return self.role.restarted(self.end_offset, safe="unsafe" not in words)

    def _safe(self, words: list[str]) -> Outputs:
        return self.role.cut_is_safe()

    def _close(self, words: list[str]) -> Outputs:
        return self.role.closed(ErrorCode[words[0]])
