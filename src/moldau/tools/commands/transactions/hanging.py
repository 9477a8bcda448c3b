"""Finds hanging transactions: open in a partition, but not known to any coordinator (KIP-664).

    the leader of a partition      "producer 7 has a transaction open here since offset 120"
    the coordinators               "producer 7? Nothing open", or "yes, but not in that partition"

No marker will come then, and read_committed consumers wait at offset 120 for ever. Leaders and coordinators
are asked one after the other, so a young transaction may be known to one only; hence transactions younger
than the longest timeout are left out. Aborting one that a coordinator knows is refused: it would be half
aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from moldau.client.admin.layout import Layout, Place
from moldau.client.admin.transactions import (
    Description,
    Producer,
    describe_producers,
    describe_transactions,
    list_transactions,
    write_abort_marker,
)
from moldau.tools.shared.errors import CommandError

MS_A_MINUTE = 60_000
LONGEST_TIMEOUT_MINUTES = 15
"""transaction.max.timeout.ms as brokers have it."""
LONGEST_TIMEOUT_MS = LONGEST_TIMEOUT_MINUTES * MS_A_MINUTE


@dataclass(frozen=True, slots=True)
class Hanging:
    """A transaction that is open in one partition and unknown to the coordinators."""

    place: Place
    producer: Producer

    def minutes(self, now_ms: int) -> int:
        """Minutes since its producer last wrote."""
        return (now_ms - self.producer.last_timestamp_ms) // MS_A_MINUTE

    @property
    def remedy(self) -> str:
        """The command that ends it."""
        topic, index = self.place
        offset = self.producer.start_offset
        return f"moldau transactions abort --topic {topic} --partition {index} --start-offset {offset}"


def choose_places(
    layout: Layout, topic: str | None, partition: int | None, broker_id: int | None
) -> list[Place]:
    """Return the partitions to check. CommandError if the topic or the partition does not exist."""
    if topic is not None:
        layout.leader((topic, partition or 0))
    return [
        place
        for place, copies in sorted(layout.partitions.items())
        if topic in (None, place[0])
        and partition in (None, place[1])
        and (broker_id is None or broker_id in copies.replicas)
        and (broker_id is not None or copies.leader in layout.brokers)
    ]


def find_hanging(
    layout: Layout, places: Iterable[Place], older_than_ms: int, now_ms: int, broker_id: int | None = None
) -> list[Hanging]:
    """Return those whose producer wrote nothing for `older_than_ms` and which no coordinator knows."""
    candidates = [
        Hanging(place, producer)
        for place, producers in describe_producers(layout, places, broker_id).items()
        for producer in producers
        if producer.start_offset is not None and now_ms - producer.last_timestamp_ms > older_than_ms
    ]
    owners = _coordinated(layout, [each.producer.producer_id for each in candidates])
    return [each for each in candidates if not _will_end(owners.get(each.producer.producer_id), each.place)]


def _will_end(owner: Description | None, place: Place) -> bool:
    """Whether the coordinator will write a marker there."""
    return owner is not None and place in owner.partitions


def abort_hanging(
    layout: Layout,
    place: Place,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    force: bool,
) -> None:
    """End it with an abort marker.

    Without `force`, CommandError if its coordinator knows it: a marker in one partition would abort only a
    part.
    """
    if not force:
        owner = _coordinated(layout, [producer_id]).get(producer_id)
        if owner is not None and _will_end(owner, place):
            raise CommandError(
                f"transaction {owner.transactional_id!r} of producer {producer_id} is not hanging: its "
                f"coordinator knows it ({owner.state}), and an abort in one partition would leave the others "
                f"open. Abort all of it with `moldau transactions terminate {owner.transactional_id}`, or "
                "add --force"
            )
    write_abort_marker(layout, place, producer_id, producer_epoch, coordinator_epoch)


def producer_at(layout: Layout, place: Place, start_offset: int) -> Producer:
    """Return the producer whose open transaction begins at this offset."""
    for producer in describe_producers(layout, [place])[place]:
        if producer.start_offset == start_offset:
            return producer
    topic, index = place
    raise CommandError(
        f"no transaction that begins at offset {start_offset} is open in {topic}-{index}: see "
        f"`moldau transactions describe-producers --topic {topic} --partition {index}`"
    )


def _coordinated(layout: Layout, producer_ids: Iterable[int]) -> dict[int, Description]:
    """The transaction of each producer id that a coordinator knows."""
    wanted = sorted(set(producer_ids))
    if not wanted:
        return {}
    listed = list_transactions(layout, producer_ids=wanted)
    described, _ = describe_transactions(layout.cluster, [each.transactional_id for each in listed], listed)
    return {each.producer_id: each for each in described}
