"""OffsetDelete, which no call of confluent-kafka reaches: the group's coordinator is looked up at the
bootstrap broker, then asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import error_words

if TYPE_CHECKING:
    from moldau.tools.commands.groups.description import Place
    from moldau.tools.shared.connection import Connection

FIND_COORDINATOR_VERSION = 2
OFFSET_DELETE_VERSION = 0


def delete_group_offsets(connection: Connection, group: str, places: Sequence[Place]) -> dict[Place, str]:
    """Delete committed offsets.

    Gives for each partition "" or what is wrong. CommandError if the group refuses.
    """
    find = FindCoordinatorRequest(key=group, key_type=0)
    found = connection.ask(connection.addresses[0], find, FIND_COORDINATOR_VERSION)
    _require(found.error_code, group)
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[
                OffsetDeleteRequestPartition(partition_index=index) for name, index in places if name == topic
            ],
        )
        for topic in sorted({name for name, _ in places})
    ]
    delete = OffsetDeleteRequest(group_id=group, topics=topics)
    answer = connection.ask((found.host, found.port), delete, OFFSET_DELETE_VERSION)
    _require(answer.error_code, group)
    return {
        (topic.name, partition.partition_index): error_words(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


def _require(error_code: int, group: str) -> None:
    if error_code:
        raise CommandError(f"group {group!r}: {error_words(error_code)}")
