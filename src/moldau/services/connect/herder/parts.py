"""What a herder works with, and how it reaches the leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from moldau.connect.sink import Sink
from moldau.connect.source import Source
from moldau.services.connect.group.interface import Membership
from moldau.services.connect.herder.secrets import Secrets
from moldau.services.connect.settings import WorkerSettings
from moldau.services.connect.stores.configs import Config
from moldau.services.connect.stores.interface import Cluster, Stores

RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 30.0
KindOf = Callable[[Config], str]
"""`source`, `sink` or `unknown`, by a connector's settings. May import the connector's module: not to be
called on the herder's loop."""
Started = Callable[[str, Config], Source | Sink]
"""Makes a connector's instance with its settings, started. ConnectError. Neither on the loop."""


class Peer(Protocol):
    """How the leader is reached for what this worker may not write itself; both block. HerderProblem."""

    def put_tasks(self, url: str, name: str, configs: Sequence[Config]) -> None:
        """The tasks of a connector."""

    def fence(self, url: str, name: str) -> None:
        """No older task of a connector may write any more."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a herder works with."""

    settings: WorkerSettings
    worker_id: str
    stores: Stores
    membership: Membership
    cluster: Cluster
    secrets: Secrets
    kind_of: KindOf
    started: Started
    peer: Peer
    set_level: Callable[[str, str], None]
