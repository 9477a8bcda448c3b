"""The Java client says where keys go, and the sink must agree, or joins partition by partition break."""

from __future__ import annotations

import base64
import random

import numpy as np
from client_agents import AgentClient

from moldau.client.partitioner import partitions_of_keys

PARTITIONS = 97
"""Prime: no bit of the hash is without effect."""


def test_keys_lie_where_the_java_client_puts_them(java: AgentClient, topic: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    sizes = [*range(70), *range(250, 260), 999, 1000, 1001, 70_001]
    keys = [rng.randbytes(size) for size in sizes * 3] + [b"\xff" * size for size in range(1, 9)]
    java.call("create_topic", topic=topic, partitions=PARTITIONS)
    records = [{"key": base64.b64encode(key).decode(), "value": None} for key in keys]
    sent = java.call("produce", topic=topic, records=records)
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    octets = np.frombuffer(b"".join(keys), dtype=np.uint8)
    ours = partitions_of_keys(octets, np.cumsum(lengths) - lengths, lengths, PARTITIONS)
    assert ours.tolist() == [partition for partition, _ in sent]
