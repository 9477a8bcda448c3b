"""What a metadata store must do; nothing else in the broker knows which one it has.

A store keeps an ordered log: version N holds the changes that were appended together as its Nth entry.
Appending names the version it builds on, and fails with `VersionConflict` when another broker was faster;
whoever gets that catches up and decides again. Every entry, one's own included, comes back through `follow`,
in order and exactly once; that stream is the only input of replay.

Here are no decisions: what a change means is in changes.py, which change to make is the controller's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.metadata.changes import Change
from moldau.metadata.image import Image

Deliver = Callable[[int, Sequence[Change]], None]
"""Receives (version, changes) of one entry."""


NO_BROKER_EPOCH = -1


class Registration(NamedTuple):
    """What a broker tells when it registers. `endpoints`: (host, port) by listener name.

    `previous_broker_epoch`: that of its life before, if it stopped cleanly and every log directory knows
    that; else NO_BROKER_EPOCH, and the end of its logs may be lost. `broker_epoch` is given by the store.
    """

    node_id: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None = None
    previous_broker_epoch: int = NO_BROKER_EPOCH
    broker_epoch: int = NO_BROKER_EPOCH


class VersionConflict(Exception):
    """The log has gone on past the version that an append was built on."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"the metadata is at version {actual}, not {expected}")
        self.expected = expected
        self.actual = actual


class MetadataStoreError(Exception):
    """The store cannot be used; the message is for the person who runs the broker."""


class MetadataStore(Protocol):
    """An ordered log of changes that survives its writer."""

    async def open(self) -> Image:
        """Open the store and give a snapshot: the image at some version, from which `follow` goes on."""

    async def follow(self, after_version: int, deliver: Deliver) -> None:
        """Deliver all entries after this version, in order: those that exist now, before this returns; later
        ones as they come, on the event loop. An append's own entry is delivered before `append_if`
        returns."""

    async def append_if(self, version: int, changes: Sequence[Change]) -> int:
        """Append one entry if the log is still at `version`; the new version is returned once the entry is
        durable.

        Raises VersionConflict when it is not (the entries that came in between have then been delivered),
        OSError when the entry could not be made durable (it is then not there).
        """

    async def register_broker(self, broker: Registration) -> int:
        """Register for as long as this process lives; gives the broker epoch, which rises with every
        registration."""

    async def elect_controller(self, node_id: int) -> int | None:
        """Try to become the controller; gives the controller epoch, or None when another broker is."""

    async def close(self) -> None:
        """Give everything back: registration, controllership, files. Closing twice does nothing."""
