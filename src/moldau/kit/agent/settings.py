"""The agent's settings: one table, with the limits of its memory and disk."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
MODES = (EXACTLY_ONCE, AT_LEAST_ONCE)


@dataclass(frozen=True)
class Quota:
    """What topics that match `pattern` (as a shell's `*`) may take; 0 bytes a second: no limit."""

    pattern: str = "*"
    bytes_per_second: int = 0
    spool_bytes: int = 256 << 20


@dataclass(frozen=True)
class AgentSettings:
    """All settings; addresses are (host, port), None where the agent does not listen."""

    folder: Path
    bootstrap_servers: str = "127.0.0.1:9092"
    client: Mapping[str, str] = field(default_factory=dict)
    mode: str = EXACTLY_ONCE
    agent_id: str = ""
    socket: Path | None = None
    socket_mode: int = 0o600
    http: tuple[str, int] | None = None
    udp: tuple[str, int] | None = None
    quotas: tuple[Quota, ...] = ()
    discards_topic: str = "moldau-agent-discards"
    discards_seconds: float = 10.0
    message_bytes_max: int = 900_000
    topics_max: int = 100
    connections_max: int = 2000
    intake_bytes_max: int = 32 << 20
    partial_bytes_max: int = 32 << 20
    unanswered_max: int = 10_000
    idle_partial_seconds: float = 30.0
    stop_seconds: float = 10.0

    def quota(self, topic: str) -> Quota:
        """The first quota whose pattern matches the topic, else the default."""
        for quota in self.quotas:
            if fnmatch.fnmatchcase(topic, quota.pattern):
                return quota
        return Quota()
