"""Each API in every version, asked by a client with no right, with all but one, with just those of its row in
the table of rights, and with those that will do as well.

Checked each time: the broker asks for the rights of the row and no others; who lacks one gets the row's
error, or the resource is left out; who has them gets no such error. A refused request changes nothing, and
its answer has no name or id in it that the client did not send.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from data_plane_world import on_a_node
from rights_requests import REQUESTS, A, G, T, fetch, find_coordinator, init_producer_id
from rights_world import EVERY_RIGHT, Answer, Granting, Right, World, ask

from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.rights_table import RIGHTS, Check
from moldau.broker.node import Node
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import ResourceType

FAILED = {int(code) for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}
NO_ERROR_FIELD = {"DescribeLogDirs": range(1, 3)}  # versions without one: nothing is listed
LISTED = {
    ResourceType.TOPIC: A,
    ResourceType.GROUP: G,
    ResourceType.TRANSACTIONAL_ID: T,
    ResourceType.DELEGATION_TOKEN: "bob",
}
"""By the type of a resource that is left out: one that is listed."""


class Variant(NamedTuple):
    """A kind of request of an API, and the types of resources that it names; None: all of the row."""

    make: Callable[[Any, int], Any]
    kinds: set[ResourceType] | None = None


VARIANTS = {
    "Fetch": [
        Variant(fetch, {ResourceType.TOPIC}),
        Variant(partial(fetch, replica_id=2), {ResourceType.CLUSTER}),
    ],
    "FindCoordinator": [
        Variant(find_coordinator, {ResourceType.GROUP}),
        Variant(partial(find_coordinator, kind=1), {ResourceType.TRANSACTIONAL_ID}),
        Variant(partial(find_coordinator, kind=2), {ResourceType.CLUSTER}),
    ],
    "InitProducerId": [
        Variant(init_producer_id, {ResourceType.TRANSACTIONAL_ID}),
        Variant(partial(init_producer_id, name=None), {ResourceType.CLUSTER}),
    ],
}
FIRST = {("FindCoordinator", 1): 1, ("FindCoordinator", 2): 6}
"""The first version of a variant, by its API and number, where it is not the first of the API."""


class Matrix:
    """One API on one node."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.asked: set[Right] = set()

    async def ask(
        self, variant: Variant, version: int, rights: Granting, *, refused: bool = False
    ) -> Answer | None:
        node = self.world.node
        if self.name == "DeleteTopics":
            await node.controller.auto_create_topics(["topic-b"])
        node.broker.authorizer = rights  # type: ignore[assignment]  # it has what handlers use
        protocol = "SASL_SSL" if "Token" in self.name else "PLAINTEXT"
        request = variant.make(self.world, version)
        sent = request.encode(version)
        before = self.world.state()
        harmless = not rights.granted and refused
        answer = await ask(node, request, version, security_protocol=protocol)
        if harmless:
            assert self.world.state() == before
            if answer is not None:
                told = {what for secret, what in self.world.secrets().items() if secret in answer.raw}
                assert told <= {what for secret, what in self.world.secrets().items() if secret in sent}
        self.asked |= rights.asked.keys()
        return answer

    async def run(self, variant: Variant, version: int) -> None:
        checks = [
            check
            for check in RIGHTS[self.name].checks
            if check.holds_for(version) and (variant.kinds is None or check.resource_type in variant.kinds)
        ]
        required = [check for check in checks if not check.optional]
        self.asked = set()
        await self._without(variant, version, required, frozenset())
        for check in required:
            others = EVERY_RIGHT - {_right(check), *check.instead}
            await self._without(variant, version, [check], others)
        row = {_right(check) for check in checks}
        await self._with(variant, version, required, frozenset(row))
        for check in required:
            for other in check.instead:
                await self._with(variant, version, required, frozenset({*row, other} - {_right(check)}))
        known = row | {other for check in checks for other in check.instead}
        assert self.asked == known, f"{self.name} v{version}"

    async def _without(
        self, variant: Variant, version: int, lacking: list[Check], granted: frozenset[Right]
    ) -> None:
        answer = await self.ask(variant, version, Granting(granted), refused=bool(lacking))
        if not lacking or answer is None:
            return
        left_out = [check for check in lacking if check.refused is None]
        errors = {int(check.refused) for check in lacking if check.refused is not None}
        told = answer.errors & FAILED
        assert told <= errors, f"{self.name} v{version}: {answer.message}"
        if errors and version not in NO_ERROR_FIELD.get(self.name, ()):
            assert told, f"{self.name} v{version}: {answer.message}"
        if errors and granted == frozenset():
            assert answer.errors <= errors
        for check in left_out:
            assert LISTED[check.resource_type].encode() not in answer.raw

    async def _with(
        self, variant: Variant, version: int, required: list[Check], granted: frozenset[Right]
    ) -> None:
        answer = await self.ask(variant, version, Granting(granted))
        if answer is None:
            assert not required
            return
        assert not answer.errors & FAILED, f"{self.name} v{version}: {answer.message}"
        for check in required:
            if check.refused is None and _right(check) in granted:
                assert LISTED[check.resource_type].encode() in answer.raw


def _right(check: Check) -> Right:
    return check.operation, check.resource_type


def in_a_world(scene: Callable[[World], Awaitable[None]], folder: Path) -> None:
    async def on_node(node: Node) -> None:
        world = World(node)
        await world.fill()
        await scene(world)

    on_a_node(
        on_node,
        folder,
        group_initial_rebalance_delay_ms="0",
        delegation_token_secret_key="secret",
        offsets_topic_num_partitions="1",
        share_coordinator_state_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
    )


@pytest.mark.parametrize("name", sorted(RIGHTS))
def test_every_version_asks_for_the_rights_of_its_row(tmp_path: Path, name: str) -> None:
    async def scene(world: World) -> None:
        (entry,) = [each for each in TABLE.values() if each.name == name]
        variants = VARIANTS.get(name) or [Variant(REQUESTS[name])]
        for number, variant in enumerate(variants):
            first = FIRST.get((name, number), entry.min_version)
            for version in range(first, entry.max_version + 1):
                await Matrix(world, name).run(variant, version)

    in_a_world(scene, tmp_path)


def test_each_api_has_a_request() -> None:
    assert REQUESTS.keys() == RIGHTS.keys()
