"""What scenarios ask of a broker beside records: topics, and what a group has committed."""

from __future__ import annotations

from collections.abc import Mapping

from sim_client import RETRIABLE, SimClient
from torture.reading import Place

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest

GROUP, TRANSACTION = 0, 1


async def create_topics(
    client: SimClient, topics: Mapping[str, int], replicas: int = 1, **settings: str
) -> None:
    """Create each with so many partitions and replicas; settings with _ for the dots."""
    configs = [
        CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()
    ]
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=count, replication_factor=replicas, configs=configs)
            for name, count in topics.items()
        ]
    )
    answer = await client.persist(request, 5)
    for one in answer.topics:
        assert one.error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS), (one.name, one.error_message)


async def find_coordinator(client: SimClient, key: str, kind: int = GROUP) -> None:
    """Ask until there is one; the first to ask makes the broker create the coordinator's topic."""
    request = FindCoordinatorRequest(key=key, key_type=kind)
    while (await client.persist(request, 2)).error_code:
        await client.pause()


async def committed_offsets(client: SimClient, group_id: str) -> dict[Place, int]:
    """What the group has committed for good."""
    request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=True)
    while True:
        answer = await client.persist(request, 7)
        codes = [answer.error_code] + [row.error_code for each in answer.topics for row in each.partitions]
        if not any(codes):
            return {
                (each.name, row.partition_index): row.committed_offset
                for each in answer.topics
                for row in each.partitions
                if row.committed_offset >= 0
            }
        assert all(code == 0 or code in RETRIABLE for code in codes), codes
        await client.pause()
