"""What a group coordinator asks of the share coordinator, when requests for one group meet."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from consumer_world import GROUP
from share_world import ShareWorld, assigned

from moldau.broker.coordinator.group.share.admin import ShareAdministration
from moldau.broker.coordinator.result import Result
from moldau.broker.coordinator.share.shard import Outcome
from moldau.broker.coordinator.share.states import Call
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_share_group_offsets as alter


class FakeStates:
    """A share coordinator that answers when `open` is set; `done` is what it was asked, in its order."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.done: list[tuple[Any, ...]] = []
        self.codes: list[int] = []

    async def all_done(self, calls: list[Call], attempts_max: int) -> list[Outcome]:
        await self.open.wait()
        return [each.here(self) for each in calls]  # type: ignore[arg-type, misc]

    # What calls ask of a coordinator

    def initialize(self, key: Any, state_epoch: int, start_offset: int) -> Outcome:
        return self._done("initialize", key.partition, start_offset)

    def delete(self, key: Any) -> Outcome:
        return self._done("delete", key.partition)

    def _done(self, *what: Any) -> Outcome:
        self.done.append(what)
        return Outcome(self.codes.pop(0) if self.codes else 0)


class World(ShareWorld):
    """A group coordinator whose shard is decided at once."""

    def __init__(self) -> None:
        super().__init__({"t": 1})
        self.states = FakeStates()

        async def no_ends(places: Any) -> dict[Any, int]:
            return {}

        self.administration = ShareAdministration(
            self,
            self.states,  # type: ignore[arg-type]
            lambda: self.image,
            no_ends,
        )

    def decide_for(self, group_id: str, operation: Callable[..., Result[Any]], refuse: Any) -> Any:
        return self.apply(operation(self.shard, self.now_ms))

    def submit_for(self, group_id: str, operation: Callable[..., Result[None]]) -> None:
        self.apply(operation(self.shard, self.now_ms))

    def shard_of(self, group_id: str) -> Any:
        return self.shard

    async def pass_on(self) -> None:
        """The administration is asked what the group wants done."""
        for each in self.asked:
            self.administration.initialize(*each)
        for gone in self.deletes:
            self.administration.delete_states(*gone)
        self.asked.clear()
        self.deletes.clear()
        await settle()

    def alter(self, offset: int) -> "asyncio.Future[Any]":
        row = alter.RequestPartition(partition_index=0, start_offset=offset)
        topics = [alter.RequestTopic(topic_name="t", partitions=[row])]
        request = alter.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
        return asyncio.ensure_future(self.administration.alter_offsets(request))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        await story(World())

    asyncio.run(whole())


def test_what_is_asked_again_while_the_first_answer_is_late_is_not_begun_anew() -> None:
    async def story(world: World) -> None:
        world.states.open.clear()
        world.beat("a", 0, ["t"])
        await world.pass_on()
        world.now_ms += 31_000
        world.beat("b", 0, ["t"])
        assert world.asked, "after so long it is asked again"
        await world.pass_on()
        world.states.open.set()
        await settle()
        assert world.states.done == [("initialize", 0, -1)]
        assert assigned(world.beat("b", 0, ["t"])) == {"t": [0]}

    run(story)


def test_a_member_that_joins_while_offsets_are_altered_does_not_undo_that() -> None:
    async def story(world: World) -> None:
        epoch = world.beat("a", 0, ["t"]).member_epoch
        await world.pass_on()
        assert assigned(world.beat("a", epoch)) == {"t": [0]}
        world.beat("a", -1)
        world.states.open.clear()
        altered = world.alter(7)
        await settle()
        world.now_ms += 31_000
        world.beat("a", 0, ["t"])
        await world.pass_on()
        world.states.open.set()
        assert not (await altered).responses[0].partitions[0].error_code
        await settle()
        assert world.states.done == [("initialize", 0, -1), ("initialize", 0, 7)]

    run(story)


def test_a_member_that_joins_while_its_group_is_deleted_gets_a_new_state() -> None:
    async def story(world: World) -> None:
        world.beat("a", 0, ["t"])
        await world.pass_on()
        world.beat("a", -1)
        world.states.open.clear()
        deleted = asyncio.ensure_future(world.administration.delete_group(GROUP))
        await settle()
        epoch = world.beat("b", 0, ["t"]).member_epoch
        await world.pass_on()
        world.states.open.set()
        assert (await deleted).error_code == ErrorCode.NON_EMPTY_GROUP
        await settle()
        epoch = world.beat("b", epoch).member_epoch
        await world.pass_on()
        assert assigned(world.beat("b", epoch)) == {"t": [0]}
        assert [each[0] for each in world.states.done] == ["initialize", "delete", "initialize"]

    run(story)


def test_a_state_that_could_not_be_deleted_does_not_keep_members_from_the_topic_for_ever() -> None:
    async def story(world: World) -> None:
        world.beat("a", 0, ["t"])
        await world.pass_on()
        world.beat("a", -1)
        world.states.codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert (await world.administration.delete_group(GROUP)).error_code
        epoch = world.beat("b", 0, ["t"]).member_epoch
        await world.pass_on()
        epoch = world.beat("b", epoch).member_epoch
        await world.pass_on()
        assert assigned(world.beat("b", epoch)) == {"t": [0]}

    run(story)
