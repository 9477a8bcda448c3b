"""The interface of a metadata store: the metadata log, broker registration, controller election.

A store keeps an ordered log: version N holds the changes that were appended together as its Nth entry.
An append names the version it builds on, and fails with `VersionConflict` when another broker was faster; the
caller then decides again on the newer image. Beside the log a store holds what expires: broker registrations
and the elected controller. Both last as long as a *session*, which begins with `open` and ends with `close`,
or when the store has not heard from the broker for the session timeout.

Implementations: embedded.py (one broker, a local file), shared_memory.py (several brokers in one process, for
tests and simulations). A host chooses: `Host.metadata_store` (host.py).

    follow ->  Entry Entry Entry          the log, in order, each once, own entries included
               Snapshot                   instead of entries that are no longer kept
               LiveBrokers                who is registered now; whenever that changes
               SeatVacant                 there is no controller: elect one
               SessionEnded               this broker's session is over: it must register again. (One that
                                          has not registered yet gets another session, and goes on.)

Events are delivered on the event loop, one at a time. Those about brokers and the controller carry the
current state: two changes may come as one event, and an event may be repeated. They are not ordered against
other brokers' entries.

Not here: what a change means (changes.py), which changes to make (controller/). Every store must pass
tests/unit/metadata/test_metadata_conformance.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.image import FIRST_LEVELS, Image

NO_BROKER_EPOCH = -1


class Registration(NamedTuple):
    """A broker's registration. `endpoints`: (host, port) by listener name.

    `previous_broker_epoch`: that before the restart, if the stop took nothing in any log directory: it was
    clean, or only the process died (files/run_marks.py); else NO_BROKER_EPOCH, and the end of its logs may be
    lost. `broker_epoch` is assigned by the store. `levels`:
    the lowest and highest metadata level that it reads (levels.py). `directories`: the ids of its log
    directories, which it holds locked.
    """

    node_id: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None = None
    previous_broker_epoch: int = NO_BROKER_EPOCH
    broker_epoch: int = NO_BROKER_EPOCH
    levels: tuple[int, int] = FIRST_LEVELS
    directories: tuple[str, ...] = ()

    def succeeds(self, held: "Registration") -> bool:
        """Whether `held` is of an earlier process of the same broker, which is certainly gone: this one holds
        the locks of its log directories and has bound its addresses.

        A copy of the data folder on another machine has another address, and does not succeed it.
        """
        return (
            self.node_id == held.node_id
            and self.endpoints == held.endpoints
            and any(each in held.directories for each in self.directories)
        )


class Entry(NamedTuple):
    """One entry of the log."""

    version: int
    changes: Sequence[Change]


class Snapshot(NamedTuple):
    """The image to go on from: entries up to its version are no longer kept, or too many to bring.

    `changes`: what makes `image` of `since`, where the store has compared the two beside the event loop
    (100,000 partitions take a tenth of a second and more). None: they are to be compared by who hears this,
    as they are where its image is another than `since`.
    """

    image: Image
    since: Image | None = None
    changes: Sequence[Change] | None = None


class LiveBrokers(NamedTuple):
    """The brokers that are registered now, by node id."""

    brokers: Mapping[int, Registration]


class SeatVacant(NamedTuple):
    """There is no controller. `controller_epoch`: that of the last one."""

    controller_epoch: int


class SessionEnded(NamedTuple):
    """The session is over, and with it the registration and the controllership. `reason`: for the log.

    A broker that cannot reach the store may hear of it only when it reaches it again: a store that was away
    itself may go on with the session then.
    """

    reason: str


Event = Entry | Snapshot | LiveBrokers | SeatVacant | SessionEnded
Deliver = Callable[[Event], None]
Known = Callable[[], Image]
"""The image that the events delivered so far have led to."""


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
    """Whether the append was made is unknown; if it was, it comes through `follow` later."""


class MetadataStoreError(Exception):
    """The store cannot be used; the message is for the person who runs the broker."""


class NodeIdInUse(MetadataStoreError):
    """A broker with this node id is registered already: another broker, or this one's session before a crash,
    which has not expired yet.
    """


class StoreStatus(NamedTuple):
    """How a store on other machines is reached."""

    name: str
    """ZooKeeper, say, and where it is."""
    is_up: bool
    """Whether it can be reached now."""
    since_seconds: float
    """For how long that has been so."""
    latency_ms: float
    """How long its last answer took."""


class MetadataStore(Protocol):
    """A durable ordered log of changes, with broker registration and controller election.

    One store object serves one broker, from one event loop. While the store cannot be reached, every method
    but `close` waits. A cancelled append may have been made.
    """

    async def open(self) -> Image:
        """Begin a session and give the image at some version, from which `follow` goes on.

        MetadataStoreError when the store is in use, damaged, or another cluster's.
        """

    async def follow(self, after_version: int, deliver: Deliver, known: Known | None = None) -> None:
        """Deliver every entry after `after_version` in order, each once, and all other events from now on.

        What there is now is delivered before this returns: the entries (or a Snapshot, where the oldest of
        them is no longer kept, and the entries after that), then LiveBrokers. Later, too, a Snapshot comes in
        place of entries when this broker fell behind. Its version is above every entry delivered before, and
        the next entry is the next version. `known`: a store with a snapshot from elsewhere compares it with
        this image first (`Snapshot.changes`).
        """

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        """Append one entry if the log is still at `version`; gives the new version once the entry is durable:
        no crash of brokers or of the store takes it back. It has been delivered here by then, to others it
        comes later. An entry may be of any size and is there whole or not at all.

        `controller_epoch` makes it an append of the controller: it is refused with ControllerFenced once
        another epoch has begun or controllership was lost, even if the version matches. Decisions that any
        broker may make (admin requests) leave it out.

        Nothing was appended when this raises VersionConflict (what came in between has been delivered),
        ControllerFenced, NoSession, or OSError (it could not be made durable). OutcomeUnknown: it cannot be
        told.
        """

    async def register_broker(self, broker: Registration) -> int:
        """Register for as long as the session lasts; begins a new session if the last one has ended. Gives
        the broker epoch: higher than any that this cluster's store gave before. LiveBrokers with this broker
        has been delivered by then.

        Registering again in the same session replaces the registration. So does registering after a crash,
        before the last session has expired, where `broker.succeeds` the one that is held; the seat that the
        last session may hold is vacant from then on. NodeIdInUse: try again when
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
