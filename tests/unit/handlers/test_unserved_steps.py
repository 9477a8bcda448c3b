"""What is refused row by row is refused in steps: however many rows, no step does more than one."""

import asyncio
import inspect
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest
from admin_world import all_steps

from moldau.broker.handlers import load_all
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import Image
from moldau.common.core.clock import ManualClock
from moldau.common.protocol.messages import (
    describe_quorum,
    describe_user_scram_credentials,
    update_features,
)

ROWS = 5000


def _many(row):
    return [row] * ROWS


REQUESTS = {
    "describe credentials": describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=[describe_user_scram_credentials.UserName(name=str(number)) for number in range(ROWS)]
    ),
    "quorums": describe_quorum.DescribeQuorumRequest(topics=_many(describe_quorum.TopicRequest())),
    "quorum partitions": describe_quorum.DescribeQuorumRequest(
        topics=[describe_quorum.TopicRequest(partitions=_many(describe_quorum.PartitionRequest()))]
    ),
    "features": update_features.UpdateFeaturesRequest(
        feature_updates=_many(update_features.FeatureUpdateKey(feature="group.version", max_version_level=1))
    ),
}


async def _taken(steps: Generator[None, None, Any], taken: list[None]) -> Any:
    """As the slow lane runs steps, counting them."""
    while True:
        try:
            taken.append(next(steps))
        except StopIteration as stop:
            return stop.value


@pytest.mark.parametrize("name", REQUESTS)
def test_a_row_a_step(name: str) -> None:
    load_all()
    request = REQUESTS[name]
    taken = []
    broker = SimpleNamespace(
        metadata=SimpleNamespace(image=Image()),
        clock=ManualClock(),
        authorizer=None,
        slow_lane=SimpleNamespace(slices=lambda: SimpleNamespace(run=lambda steps: _taken(steps, taken))),
    )
    context = RequestContext(
        type(request).VERSIONS[1], 1, Session("PLAINTEXT", client_host="127.0.0.1", client_id="test")
    )
    steps = TABLE[type(request).KEY].handler(broker, context, request)
    if inspect.iscoroutine(steps):
        asyncio.run(steps)
        assert len(taken) >= ROWS
        return
    count = 0

    def counted():
        nonlocal count
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value
            count += 1
            yield

    all_steps(counted())
    assert count >= ROWS
