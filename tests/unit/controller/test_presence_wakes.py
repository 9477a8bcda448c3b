"""What comes while the controller decides may have come too late for that decision: it decides again."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.broker.controller.membership import Followed, default_rules
from moldau.broker.controller.presence import Presence
from moldau.broker.metadata.changes import ConfigsChanged, LogEndsTold
from moldau.broker.metadata.image import LogEnd, ResourceType
from moldau.broker.metadata.store import Entry, LiveBrokers, Registration
from moldau.broker.metadata.view import MetadataView

ENDS = LogEndsTold(2, ((b"a" * 16, (LogEnd(0, 1, 1, 1),)),))
CONFIG = ConfigsChanged(ResourceType.TOPIC, "a", {"min.insync.replicas": "2"})


class Store:
    """Gives every broker the seat."""

    async def register_broker(self, broker: Registration) -> int:
        return 1

    async def elect_controller(self, node_id: int) -> int:
        return 1


class Loop:
    """Decisions that last until the test lets them end."""

    def __init__(self) -> None:
        self.decisions: list[asyncio.Future[Followed]] = []

    async def decide(self, decide: Any, **options: Any) -> Followed:
        self.decisions.append(asyncio.get_running_loop().create_future())
        return await self.decisions[-1]


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_comes_while_it_decides() -> None:
    async def run() -> None:
        loop = Loop()
        presence = Presence(1, Store(), MetadataView(), default_rules)  # type: ignore[arg-type]
        presence.heard(LiveBrokers({}))
        joining = asyncio.ensure_future(presence.join(loop, Registration(1, {})))  # type: ignore[arg-type]
        await turns()
        assert len(loop.decisions) == 1
        for count, change in enumerate((ENDS, CONFIG), 2):
            presence.heard(Entry(count, (change,)))
            loop.decisions[-1].set_result(Followed())
            await turns()
            assert len(loop.decisions) == count, change
        presence.heard(Entry(9, (LogEndsTold(2, ()),)))
        loop.decisions[-1].set_result(Followed())
        await turns()
        assert len(loop.decisions) == 3, "nothing has come that matters"
        joining.cancel()
        await presence.close()

    asyncio.run(run())


def test_a_decision_that_fails_is_made_again() -> None:
    async def run() -> None:
        loop = Loop()
        presence = Presence(1, Store(), MetadataView(), default_rules)  # type: ignore[arg-type]
        presence.heard(LiveBrokers({}))
        joining = asyncio.ensure_future(presence.join(loop, Registration(1, {})))  # type: ignore[arg-type]
        await turns()
        joining.cancel()
        await turns()
        loop.decisions[0].set_exception(OSError("the disk is full"))
        await turns()
        presence.heard(LiveBrokers({}))
        await turns()
        assert len(loop.decisions) == 2
        await presence.close()

    asyncio.run(run())
