"""The interface of a group of any protocol, for offsets, listing, deletion and expiry.

A classic group lets its members agree on an assignment (the leader computes it); a consumer group (KIP-848)
is assigned by the broker. Both share the shard and its name space. One that is empty may become the
other at once; one in use becomes the other with its members (migration/upgrade.py, migration/downgrade.py).
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from moldau.broker.coordinator.result import ParkedAnswer, Result


class GroupKind(Enum):
    """The protocol of a group, as ListGroups names it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class Client(Protocol):
    """Who sends a request, and in which version."""

    @property
    def api_version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def sees_topic(self) -> Callable[[str], bool] | None:
        """Whether it may see the topic of that name; None: it may see all."""


class Group(Protocol):
    """One group in its shard."""

    group_id: str
    kind: GroupKind

    @property
    def protocol_type(self) -> str:
        """ "consumer", "connect", ...; empty for a group that only stores offsets."""

    def state_name(self) -> str:
        """The state as clients see it, such as "Stable"."""

    def member_count(self) -> int: ...

    def is_empty(self) -> bool: ...

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_member_epoch: int,
        api_version: int,
    ) -> int:
        """The error code with which a commit of this member is refused, or 0."""

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, generation_or_member_epoch: int
    ) -> int:
        """The error code with which a commit in a transaction is refused, or 0. Clients from before KIP-447
        name neither member nor generation, and nothing is asked of them."""

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> int:
        """The error code with which a fetch of offsets is refused, or 0."""

    def validate_offset_delete(self) -> int:
        """The error code with which deleting single offsets is refused, or 0."""

    def validate_delete(self) -> int:
        """The error code with which deleting the group is refused, or 0."""

    def subscribed_to(self, topic: str) -> bool:
        """Whether the group consumes `topic` now; its offsets are then neither deleted nor expired."""

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """The moment from which the retention of an offset counts; None while none of this group's may
        expire."""

    def tombstones(self) -> list[Any]:
        """Records that delete the group itself (its offsets have their own)."""

    def on_deadline(self, name: str, member_id: str, now_ms: int) -> Result[None]:
        """The deadline `(group_id, name, member_id)` has passed."""

    def loaded(self, now_ms: int) -> Result[None]:
        """The shard is loaded: start the timers."""

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        """The group is given up here: answers for all of its parked callers."""


def host_text(client: Client) -> str:
    """A client's address as Kafka shows and stores it: with a slash before it."""
    host = client.client_host
    return host if host.startswith("/") else f"/{host}"
