"""When all is over nothing may hang: no transaction open or half ended, no reader held back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from raw_client import Disconnected, RawClient

from torture.reading import Place

LIST_OFFSETS, OFFSET_FETCH, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 2, 9, 65, 66
LATEST = -1
RESTING = {"Empty", "CompleteCommit", "CompleteAbort", "Dead"}


def settled_ends(
    address: str, topics: Mapping[str, int], timeout_s: float
) -> tuple[dict[Place, int], list[str]]:
    """Ends of all partitions once last stable offset and high watermark are one; else what hangs."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with RawClient(address) as client:
                ends = _ends(client, topics, isolation_level=0)
                stable = _ends(client, topics, isolation_level=1)
                hanging = [
                    f"{topic}-{partition}: stable to {stable[topic, partition]}, high watermark {end}"
                    for (topic, partition), end in ends.items()
                    if stable[topic, partition] != end
                ] + _unfinished(client)
        except (OSError, Disconnected, LookupError) as error:
            ends, hanging = {}, [f"the broker does not answer: {error!r}"]
        if not hanging or time.monotonic() > deadline:
            return ends, hanging
        time.sleep(0.1)


def ask_committed_offsets(address: str, group: str) -> dict[Place, int]:
    """What a group has committed; nothing where a transaction is still open, or all is still loading."""
    with RawClient(address) as client:
        answer = client.call(OFFSET_FETCH, 7, group_id=group, topics=None, require_stable=True)
    return {
        (str(topic.name), int(one.partition_index)): int(one.committed_offset)
        for topic in answer.topics
        for one in topic.partitions
        if not int(answer.error_code) and not int(one.error_code) and one.committed_offset >= 0
    }


def _ends(client: RawClient, topics: Mapping[str, int], isolation_level: int) -> dict[Place, int]:
    wanted = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": one, "current_leader_epoch": -1, "timestamp": LATEST}
                for one in range(count)
            ],
        }
        for topic, count in topics.items()
    ]
    answer = client.call(LIST_OFFSETS, 5, replica_id=-1, isolation_level=isolation_level, topics=wanted)
    found = {}
    for topic in answer.topics:
        for one in topic.partitions:
            if int(one.error_code):
                raise LookupError(f"{topic.name}-{one.partition_index}: {one.error_code!r}")
            found[str(topic.name), int(one.partition_index)] = int(one.offset)
    return found


def _unfinished(client: RawClient) -> list[str]:
    """Transactions that are neither ended nor not begun, as both APIs see them."""
    listed: Any = client.call(LIST_TRANSACTIONS, 0)
    if int(listed.error_code):
        raise LookupError(f"ListTransactions: {listed.error_code!r}")
    states = {str(one.transactional_id): one.transaction_state for one in listed.transaction_states}
    # One that never began has no start time, which the codec here cannot express.
    begun = [name for name, state in states.items() if state != "Empty"]
    described = client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=begun)
    complaints = [f"transaction {name} is {state}" for name, state in states.items() if state not in RESTING]
    for one in described.transaction_states:
        if one.transaction_state not in RESTING or one.topics:
            complaints.append(
                f"{one.transactional_id} is described as {one.transaction_state} with {one.topics}"
            )
    return complaints
