"""A producer of a cluster: each batch goes to its partition's leader, and to the next one when that changes.

Batches of a partition stay in order: all that are under way go over one connection to one broker, and what
was not acknowledged is sent again, in order, only when every answer of the round has come or been given up.
After `DELIVERY_SECONDS_MAX` the producer gives up, as clients do after delivery.timeout.ms; what became of
the records is unknown then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from sim_admin import TRANSACTION
from sim_client import Channel, Disconnected
from sim_network import Endpoint
from sim_producer import Fatal, Sent, SimProducer
from sim_routes import ClusterClient, answered
from torture.reading import Place

DELIVERY_SECONDS_MAX = 60.0
_REQUEST_SECONDS = 2.0


class ClusterProducer(SimProducer):
    """As `SimProducer`, with a leader for each partition and a coordinator of its own."""

    def __init__(self, cluster: ClusterClient, *, in_flight_max: int = 5, **told: Any) -> None:
        transactional_id = told.get("transactional_id", "")
        route = cluster.coordinator(transactional_id, TRANSACTION) if transactional_id else cluster.anyone()
        super().__init__(route, **told)
        self.cluster = cluster
        self.refused_for_good: set[int] = set()
        """By id(): batches that a broker has refused, and none may have taken."""
        self._in_flight_max = in_flight_max
        self._deadline = 0.0

    @property
    def identity(self) -> str:
        """The producer id and epoch."""
        return f"{self._producer_id}:{self._producer_epoch}"

    def bump_epoch(self) -> None:
        """Go on in the next epoch with sequence 0, as an idempotent producer may by itself (KIP-360)."""
        self._producer_epoch += 1
        self._sequences.clear()

    async def send_late(self, sent: Sent) -> None:
        """Send a batch of before once, and do not care for the answer: it was long under way."""
        with contextlib.suppress(Disconnected):
            channel = await self.cluster.channel(await self.cluster.leader_of(sent.place))
            future = channel.send(self._request([sent]), self._produce_version, self.client.name)
            await answered(channel, future, _REQUEST_SECONDS)

    async def deliver(self, batches: Sequence[Sent]) -> None:
        self._deadline = self.cluster.world.loop.time() + DELIVERY_SECONDS_MAX
        await super().deliver(batches)

    async def _send_all(self, todo: Sequence[Sent]) -> str | None:
        if self.cluster.world.loop.time() > self._deadline:
            return "given up"
        rounds: dict[Endpoint, list[Sent]] = {}
        # One leader a partition and round: what is learnt meanwhile must not let a batch overtake another.
        leaders: dict[Place, Endpoint | None] = {}
        for each in todo:
            if each.place not in leaders:
                try:
                    leaders[each.place] = await self.cluster.leader_of(each.place)
                except Disconnected:
                    leaders[each.place] = None
            leader = leaders[each.place]
            if leader is not None:
                rounds.setdefault(leader, []).append(each)
        errors = [await one for one in [self._begin(*each) for each in rounds.items()]]
        return next((error for error in errors if error), None)

    def _begin(self, leader: Endpoint, todo: list[Sent]) -> asyncio.Future[str | None]:
        return asyncio.ensure_future(self._send_to(leader, todo))

    async def _send_to(self, leader: Endpoint, todo: Sequence[Sent]) -> str | None:
        """One round with one broker."""
        try:
            channel = await self.cluster.channel(leader)
        except Disconnected:
            self._forget(todo)
            return None
        flying: list[tuple[list[Sent], Any]] = []
        troubled: set[Place] = set()
        error = None
        for group in self._requests(todo):
            if len(flying) == self._in_flight_max:
                error = error or await self._take_from(channel, flying.pop(0), troubled)
                if troubled or error:
                    break  # what has not left yet waits for the next round
            future = channel.send(self._request(group), self._produce_version, self.client.name)
            flying.append((group, future))
        for each in flying:
            error = await self._take_from(channel, each, troubled) or error
        return error

    async def _take_from(
        self, channel: Channel, sent: tuple[list[Sent], Any], troubled: set[Place]
    ) -> str | None:
        group, future = sent
        try:
            answer = await answered(channel, future, _REQUEST_SECONDS)
        except Disconnected:
            troubled |= {each.place for each in group}
            self._forget(group)
            return None
        error = self._taken(group, answer, troubled)
        self._forget([each for each in group if each.place in troubled])
        return error

    def _taken(self, group: list[Sent], answer: Any, troubled: set[Place]) -> str | None:
        """A new leader may take a batch although its predecessor refused the one before it."""
        late = not self._resends and any(
            not row.error_code and (topic.name, row.index) in troubled
            for topic in answer.responses
            for row in topic.partition_responses
        )
        error = super()._taken(group, answer, set() if late else troubled)
        return error or ("a batch was taken before the one that it follows" if late else None)

    def _request(self, group: Sequence[Sent]) -> Any:
        request = super()._request(group)
        request.timeout_ms = int(_REQUEST_SECONDS * 1000)
        return request

    def _forget(self, batches: Sequence[Sent]) -> None:
        for each in batches:
            self.cluster.leaders.pop(each.place, None)


__all__ = ["ClusterProducer", "Fatal"]
