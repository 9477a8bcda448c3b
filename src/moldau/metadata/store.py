"""What a metadata store must do; nothing else in the broker knows which one it has.

A store keeps an ordered log: version N holds the changes that were appended together as its Nth entry.
Appending names the version it builds on, and fails with `VersionConflict` when another broker was faster;
whoever gets that decides again on what has come. Beside the log it knows what no log can: which brokers live,
and who is the controller. Both last as long as a *session*, which begins with `open`, and ends with `close`
or when the store has not heard from the broker for the session's timeout.

    follow ->  Entry Entry Entry          the log, in order, each once, one's own included
               Snapshot                   instead of entries that are no longer kept
               LiveBrokers                who is registered now; whenever that changes
               SeatVacant                 there is no controller: elect one
               SessionEnded               this broker counts as gone: it must register again

All events of a store come on the event loop, one after the other. Those about brokers and the controller say
what is so now, not what happened: two changes may come as one event, and an event may come again. They are
not ordered against other brokers' entries.

Here are no decisions: what a change means is in changes.py, which change to make is the controller's.
tests/unit/metadata/test_metadata_conformance.py is the promise in executable form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.metadata.changes import Change
from moldau.metadata.image import Image

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


class Entry(NamedTuple):
    """One entry of the log."""

    version: int
    changes: Sequence[Change]


class Snapshot(NamedTuple):
    """The image to go on from: entries up to its version are no longer kept, or too many to bring."""

    image: Image


class LiveBrokers(NamedTuple):
    """The brokers that are registered now, by node id."""

    brokers: Mapping[int, Registration]


class SeatVacant(NamedTuple):
    """There is no controller. `controller_epoch`: that of the last one."""

    controller_epoch: int


class SessionEnded(NamedTuple):
    """The session is over, and with it the registration and the controller's seat. `reason`: for the log."""

    reason: str


Event = Entry | Snapshot | LiveBrokers | SeatVacant | SessionEnded
Deliver = Callable[[Event], None]


class VersionConflict(Exception):
    """The log has gone on past the version that an append was built on."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"the metadata is at version {actual}, not {expected}")
        self.expected = expected
        self.actual = actual


class ControllerFenced(Exception):
    """An append as controller of an epoch that is over: another broker is the controller, or nobody."""

    def __init__(self, held: int, current: int) -> None:
        super().__init__(f"controller epoch {held} is over, the latest is {current}")
        self.held = held
        self.current = current


class NoSession(Exception):
    """This broker's session has ended; nothing can be appended before it has registered again. Or the store
    is closed."""


class OutcomeUnknown(Exception):
    """An append that may have been made or not; if it was, it comes through `follow` later."""


class MetadataStoreError(Exception):
    """The store cannot be used; the message is for the person who runs the broker."""


class NodeIdInUse(MetadataStoreError):
    """A broker with this node id is registered already: another one, or the one before this, whose session
    has not ended yet."""


class MetadataStore(Protocol):
    """An ordered log of changes that survives its writers, and what is known about who lives.

    One store object serves one broker, from one event loop. While the store cannot be reached, every method
    but `close` waits. A caller that is cancelled may find its append made all the same.
    """

    async def open(self) -> Image:
        """Begin a session and give the image at some version, from which `follow` goes on.

        MetadataStoreError when the store is in use, damaged, or another cluster's.
        """

    async def follow(self, after_version: int, deliver: Deliver) -> None:
        """Deliver every entry after `after_version` in order, each once, and all other events from now on.

        What there is now is delivered before this returns: the entries (or a Snapshot, where the oldest of
        them is no longer kept, and the entries after that), then LiveBrokers. Later, too, a Snapshot comes in
        place of entries when this broker fell behind. Its version is above every entry delivered before, and
        the next entry is the next version.
        """

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        """Append one entry if the log is still at `version`; gives the new version once the entry is durable:
        no crash of brokers or of the store takes it back. It has been delivered here by then, to others it
        comes later. An entry may be of any size and is there whole or not at all.

        `controller_epoch` makes it the act of a controller: it is refused once another epoch has begun or the
        seat has been lost, even if the version were right. Decisions that any broker may take (an
        administrator's request) leave it out.

        Nothing was appended when this raises VersionConflict (what came in between has been delivered),
        ControllerFenced, NoSession, or OSError (it could not be made durable). OutcomeUnknown: it cannot be
        told.
        """

    async def register_broker(self, broker: Registration) -> int:
        """Register for as long as the session lasts; begins a new session if the last one has ended. Gives
        the broker epoch: higher than any that this cluster's store gave before. LiveBrokers with this broker
        has been delivered by then.

        Registering again in the same session replaces the registration. NodeIdInUse: try again when
        LiveBrokers shows that it is free. MetadataStoreError: this broker may not join.
        """

    async def elect_controller(self, node_id: int) -> int | None:
        """Take the controller's seat, if it is vacant, for as long as the session lasts.

        Gives the controller epoch, which is higher than every one before (the held one, if the seat is one's
        own already), or None when another broker has it; SeatVacant comes when it has no longer. From the
        moment that an epoch is given, appends of earlier epochs are refused. All that earlier controllers
        appended, and LiveBrokers as it is then, have been delivered before this returns an epoch.
        """

    async def close(self) -> None:
        """End the session at once: registration and seat are given up, others hear of it. An append that is
        under way is finished first if the store can be reached. Closing twice does nothing; nothing is
        delivered afterwards."""
