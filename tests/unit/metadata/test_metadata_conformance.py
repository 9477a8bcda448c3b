"""What every metadata store must do: the promises of metadata/store.py, in executable form.

A further store joins by adding a world to `WORLDS`: how to make a store, how to end its session, how to let
what is on its way arrive. The first part is for every store; the second opens two stores on one cluster,
which the embedded one refuses.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from moldau.broker.metadata.changes import (
    BrokerRegistered,
    ClusterCreated,
    ConfigsChanged,
    ControllerElected,
    TopicCreated,
    TopicDeleted,
    replay,
)
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState, ResourceType
from moldau.broker.metadata.store import (
    ControllerFenced,
    Entry,
    LiveBrokers,
    MetadataStoreError,
    NodeIdInUse,
    NoSession,
    OutcomeUnknown,
    Registration,
    SeatVacant,
    SessionEnded,
    Snapshot,
    VersionConflict,
)
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.testing.shared_memory import SharedMemory

ENDPOINTS = {"PLAINTEXT": ("127.0.0.1", 9092)}
SESSION_TIMEOUT_MS = 6_000


class EmbeddedWorld:
    """The folder of a cluster of one."""

    shared = False

    def __init__(self, folder):
        self._folder = folder

    def make(self):
        """A store on the cluster, closed."""
        return EmbeddedStore(self._folder)

    def make_forgetful(self):
        """A store on it that keeps hardly any entries."""
        return EmbeddedStore(self._folder, snapshot_min_bytes=1)

    async def settle(self):
        """Let arrive what is on its way."""
        await asyncio.sleep(0)


class SharedMemoryWorld:
    """An ensemble in memory, with a clock that the test moves."""

    shared = True
    ends_while_away = 1
    """How many ends of a session a broker hears of while it cannot reach the ensemble."""

    def __init__(self, folder):
        self._timers = ManualTimers(ManualClock())
        self._ensemble = SharedMemory(self._timers, session_timeout_ms=SESSION_TIMEOUT_MS)

    def make(self):
        return self._ensemble.store()

    def make_forgetful(self):
        self._ensemble.kept_entries_max = 1
        return self._ensemble.store()

    async def settle(self):
        for _ in range(5):
            await asyncio.sleep(0)

    # What a world whose stores can be opened twice must offer as well

    async def expire(self, store):
        """The store's session ends, while its broker lives."""
        self._ensemble.expire(store)
        await self.settle()

    async def disconnect(self, store):
        """Nothing passes between the store and the cluster any more."""
        self._ensemble.disconnect(store)

    async def reconnect(self, store):
        self._ensemble.reconnect(store)
        await self.settle()

    async def wait_ms(self, duration_ms):
        self._timers.advance(duration_ms)
        await self.settle()

    def lose_answer(self, store):
        """The next append is made, but the connection is lost before it is answered."""
        self._ensemble.lose_answer(store)


WORLDS = {"embedded": EmbeddedWorld, "shared memory": SharedMemoryWorld}
ZOOKEEPER = pytest.param("zookeeper", marks=pytest.mark.xdist_group("zookeeper"))
"""A real server, for all tests on one of the test run's processes."""


def world_of(request, tmp_path):
    """The world that a fixture's parameter names."""
    if request.param == "zookeeper":
        return request.getfixturevalue("zookeeper_world")
    return WORLDS[request.param](tmp_path / "metadata")


@pytest.fixture(params=[*WORLDS, ZOOKEEPER])
def world(request, tmp_path):
    """A cluster's store, in which several brokers may live, or one after the other."""
    return world_of(request, tmp_path)


@pytest.fixture(params=[*(name for name, each in WORLDS.items() if each.shared), ZOOKEEPER])
def shared(request, tmp_path):
    """A cluster's store for several brokers at once."""
    return world_of(request, tmp_path)


class Follower:
    """What one broker hears, and the image that it makes of it."""

    def __init__(self, image=EMPTY_IMAGE):
        self.image = image
        self.events = []

    def __call__(self, event):
        self.events.append(event)
        if isinstance(event, Entry):
            assert event.version == self.image.version + 1, "in order, each once"
            self.image = replay(self.image, event.version, event.changes)
        elif isinstance(event, Snapshot):
            assert event.image.version > self.image.version, "never back"
            self.image = event.image

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def take(self):
        """The events since this was last called."""
        events, self.events = self.events, []
        return events

    @property
    def live(self):
        """The brokers of the last LiveBrokers, with their epochs."""
        return {n: each.broker_epoch for n, each in self.of(LiveBrokers)[-1].brokers.items()}


@asynccontextmanager
async def opened(world, count=1):
    """Stores that are open, each with its follower."""
    pairs = []
    try:
        for _ in range(count):
            store = world.make()
            follower = Follower(await store.open())
            await store.follow(follower.image.version, follower)
            pairs.append((store, follower))
        yield pairs[0] if count == 1 else pairs
    finally:
        for store, _ in pairs:
            await store.close()


def topic(name, number=1):
    return TopicCreated(name, bytes([number]) * 16, (PartitionState.fresh((1,)),))


def registration(node_id, previous=-1):
    return Registration(node_id, ENDPOINTS, "rack", previous)


# Every store


def test_a_new_store_is_empty(world):
    async def scenario():
        store = world.make()
        assert await store.open() == EMPTY_IMAGE
        await store.close()
        await store.close()

    asyncio.run(scenario())


def test_appends_are_versioned_delivered_and_survive(world):
    async def scenario():
        async with opened(world) as (store, follower):
            assert await store.append_if(0, [ClusterCreated("c")]) == 1
            assert follower.of(Entry) == [Entry(1, [ClusterCreated("c")])], "delivered before it returns"
            assert await store.append_if(1, [topic("a", 1), topic("b", 2)]) == 2
            assert await store.append_if(2, [TopicDeleted("a")]) == 3
            assert list(follower.of(Entry)[1].changes) == [topic("a", 1), topic("b", 2)]
        again = world.make()
        assert await again.open() == follower.image
        assert set(follower.image.topics) == {"b"}
        await again.close()

    asyncio.run(scenario())


def test_an_append_on_an_old_version_is_refused_and_leaves_nothing(world):
    async def scenario():
        async with opened(world) as (store, follower):
            await store.append_if(0, [topic("a")])
            with pytest.raises(VersionConflict) as caught:
                await store.append_if(0, [topic("b", 2)])
            assert (caught.value.expected, caught.value.actual) == (0, 1)
            assert len(follower.of(Entry)) == 1
        again = world.make()
        assert set((await again.open()).topics) == {"a"}
        await again.close()

    asyncio.run(scenario())


def test_an_entry_without_changes_is_one_like_any_other(world):
    """A broker that stood still appends one to find out whether its version is the newest."""

    async def scenario():
        async with opened(world) as (store, follower):
            await store.append_if(0, [topic("a")])
            assert await store.append_if(1, ()) == 2
            with pytest.raises(VersionConflict):
                await store.append_if(1, ())
            assert await store.append_if(2, [topic("b", 2)]) == 3
            assert follower.image.version == 3
        again = world.make()
        assert await again.open() == follower.image
        await again.close()

    asyncio.run(scenario())


def test_of_several_appends_at_once_on_one_version_one_wins(world):
    async def scenario():
        async with opened(world) as (store, _):
            outcomes = await asyncio.gather(
                *(store.append_if(0, [topic(f"t{n}", n + 1)]) for n in range(5)), return_exceptions=True
            )
            assert outcomes.count(1) == 1
            assert sum(isinstance(outcome, VersionConflict) for outcome in outcomes) == 4

    asyncio.run(scenario())


def test_following_starts_after_any_version(world):
    async def scenario():
        store, follower = world.make(), Follower()
        await store.open()
        await store.append_if(0, [ClusterCreated("c")])
        await store.append_if(1, [topic("a")])
        follower.image = follower.image._replace(version=1)
        await store.follow(1, follower)
        assert [event.version for event in follower.of(Entry)] == [2]
        assert follower.events[-1] == LiveBrokers({})
        await store.append_if(2, [ConfigsChanged(ResourceType.TOPIC, "a", {"retention.ms": "1"})])
        assert [event.version for event in follower.of(Entry)] == [2, 3]
        await store.close()

    asyncio.run(scenario())


def test_who_follows_from_too_far_back_gets_a_snapshot_first(world):
    async def scenario():
        store, follower = world.make_forgetful(), Follower()
        await store.open()
        for version in range(200):
            await store.append_if(version, [ConfigsChanged(ResourceType.TOPIC, "a", {"x": str(version)})])
        await store.follow(0, follower)
        (snapshot,) = follower.of(Snapshot)
        assert follower.events[0] is snapshot
        assert follower.image.version == 200
        assert follower.image.configs == {(ResourceType.TOPIC, "a"): {"x": "199"}}
        await store.append_if(200, [ConfigsChanged(ResourceType.TOPIC, "a", {"x": "last"})])
        assert follower.image.configs == {(ResourceType.TOPIC, "a"): {"x": "last"}}
        await store.close()

    asyncio.run(scenario())


def test_broker_epochs_and_controller_epochs_rise_from_life_to_life(world):
    async def scenario():
        epochs = []
        for _ in range(3):
            async with opened(world) as (store, follower):
                broker_epoch = await store.register_broker(registration(1))
                assert follower.live == {1: broker_epoch}
                registered = follower.of(LiveBrokers)[-1].brokers[1]
                assert registered == registration(1)._replace(broker_epoch=broker_epoch)
                controller_epoch = await store.elect_controller(1)
                assert await store.elect_controller(1) == controller_epoch, "it has the seat already"
                epochs.append((broker_epoch, controller_epoch))
                await store.append_if(
                    follower.image.version,
                    [
                        BrokerRegistered(1, broker_epoch, ENDPOINTS, None),
                        ControllerElected(1, controller_epoch),
                    ],
                )
        assert epochs == sorted(epochs)
        assert len({broker for broker, _ in epochs}) == len({controller for _, controller in epochs}) == 3

    asyncio.run(scenario())


def test_registering_again_gives_a_higher_epoch_also_when_nothing_was_written(world):
    async def scenario():
        async with opened(world) as (store, follower):
            first = await store.register_broker(registration(1))
            second = await store.register_broker(registration(1))
            assert second > first
            assert follower.live == {1: second}

    asyncio.run(scenario())


def test_a_controllers_append_needs_its_epoch(world):
    async def scenario():
        async with opened(world) as (store, follower):
            await store.register_broker(registration(1))
            with pytest.raises(ControllerFenced):
                await store.append_if(0, [topic("a")], controller_epoch=1)
            held = await store.elect_controller(1)
            with pytest.raises(ControllerFenced) as caught:
                await store.append_if(0, [topic("a")], controller_epoch=held - 1)
            assert (caught.value.held, caught.value.current) == (held - 1, held)
            assert follower.of(Entry) == []
            assert await store.append_if(0, [topic("a")], controller_epoch=held) == 1

    asyncio.run(scenario())


def test_a_closed_store_takes_and_tells_nothing(world):
    async def scenario():
        store, follower = world.make(), Follower()
        await store.open()
        await store.follow(0, follower)
        await store.register_broker(registration(1))
        follower.take()
        await store.close()
        await world.settle()
        with pytest.raises(NoSession):
            await store.append_if(0, [topic("a")])
        assert follower.events == []

    asyncio.run(scenario())


def test_a_second_opening_is_refused_or_shares(world):
    async def scenario():
        first, second = world.make(), world.make()
        await first.open()
        if world.shared:
            await second.open()
            await second.close()
        else:
            with pytest.raises(MetadataStoreError, match="another broker"):
                await second.open()
        assert await first.append_if(0, [topic("a")]) == 1
        await first.close()

    asyncio.run(scenario())


# Stores that several brokers share


def test_every_broker_hears_every_entry(shared):
    async def scenario():
        async with opened(shared, 3) as brokers:
            for version in range(9):
                await brokers[version % 3][0].append_if(version, [topic(f"t{version}", version + 1)])
                await shared.settle()
            images = [follower.image for _, follower in brokers]
            assert images[0].version == 9
            assert images[0] == images[1] == images[2]

    asyncio.run(scenario())


def test_an_overtaken_append_is_told_what_overtook_it(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, _), (two, follower)):
            await one.append_if(0, [topic("a")])
            with pytest.raises(VersionConflict):
                await two.append_if(0, [topic("b", 2)])
            assert set(follower.image.topics) == {"a"}, "delivered before it is raised"
            assert await two.append_if(1, [topic("b", 2)]) == 2

    asyncio.run(scenario())


def test_brokers_race_and_no_version_is_given_twice(shared):
    async def append_all(store, follower, name):
        for number in range(10):
            while True:
                try:
                    change = ConfigsChanged(ResourceType.TOPIC, name, {"x": str(number)})
                    await store.append_if(follower.image.version, [change])
                    break
                except VersionConflict:
                    await asyncio.sleep(0)

    async def scenario():
        async with opened(shared, 3) as brokers:
            await asyncio.gather(
                *(append_all(store, heard, f"t{n}") for n, (store, heard) in enumerate(brokers))
            )
            await shared.settle()
            assert [follower.image.version for _, follower in brokers] == [30, 30, 30]
            assert all(values == {"x": "9"} for values in brokers[0][1].image.configs.values())

    asyncio.run(scenario())


def test_brokers_that_come_and_go_are_seen_by_all(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, first), (two, second)):
            epochs = {1: await one.register_broker(registration(1))}
            epochs[2] = await two.register_broker(registration(2, previous=77))
            await shared.settle()
            assert first.live == second.live == epochs
            assert first.of(LiveBrokers)[-1].brokers[2].previous_broker_epoch == 77
            await two.close()
            await shared.settle()
            assert first.live == {1: epochs[1]}

    asyncio.run(scenario())


def test_a_node_id_is_one_brokers_until_its_session_ends(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, _), (two, follower)):
            first = await one.register_broker(registration(1))
            with pytest.raises(NodeIdInUse, match=r"node\.id=1"):
                await two.register_broker(registration(1))
            await shared.expire(one)
            assert follower.live == {}
            second = await two.register_broker(registration(1))
            assert second > first

    asyncio.run(scenario())


def test_a_broker_that_was_killed_and_started_again_does_not_wait_for_its_last_session(shared):
    """It holds the log directories that the other process had, and the same addresses."""

    async def scenario():
        async with opened(shared, 2) as ((one, _), (two, follower)):
            held = registration(1)._replace(directories=("disk-1", "disk-2"))
            first = await one.register_broker(held)
            seat = await one.elect_controller(1)
            moved = held._replace(endpoints={"PLAINTEXT": ("elsewhere", 9092)})
            for other in (moved, held._replace(directories=("disk-3",)), registration(1)):
                with pytest.raises(NodeIdInUse, match=r"node\.id=1"):
                    await two.register_broker(other)
            second = await two.register_broker(held._replace(directories=("disk-2",)))
            assert second > first
            assert follower.live == {1: second}
            assert await two.elect_controller(1) > seat
            with pytest.raises((ControllerFenced, NoSession)):
                await one.append_if(0, [topic("a")], controller_epoch=seat)

    asyncio.run(scenario())


def test_the_seat_is_one_brokers_until_its_session_ends(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, _), (two, follower)):
            await one.register_broker(registration(1))
            await two.register_broker(registration(2))
            first = await one.elect_controller(1)
            assert await two.elect_controller(2) is None
            await one.append_if(0, [ControllerElected(1, first)], controller_epoch=first)
            assert follower.of(SeatVacant) == []
            await shared.expire(one)
            assert follower.of(SeatVacant) == [SeatVacant(first)]
            second = await two.elect_controller(2)
            assert second > first
            assert follower.image.controller_epoch == first, "it knows what its predecessor wrote"
            assert set(follower.live) == {2}, "and who lives"

    asyncio.run(scenario())


def test_a_seat_that_was_vacant_for_a_moment_only_may_be_told_of_or_not_but_the_next_time_is(shared):
    async def scenario():
        async with opened(shared, 3) as ((one, _), (two, _), (three, follower)):
            for node, store in enumerate((one, two, three), start=1):
                await store.register_broker(registration(node))
            await one.elect_controller(1)
            await one.close()
            held = await two.elect_controller(2)
            await shared.settle()
            await two.close()
            await shared.settle()
            assert follower.of(SeatVacant)[-1] == SeatVacant(held)

    asyncio.run(scenario())


def test_a_deposed_controller_writes_nothing_whatever_version_it_names(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, _), (two, follower)):
            await one.register_broker(registration(1))
            first = await one.elect_controller(1)
            await shared.expire(one)
            await one.register_broker(registration(1))
            second = await two.elect_controller(2)
            with pytest.raises(ControllerFenced) as caught:
                await one.append_if(0, [topic("a")], controller_epoch=first)
            assert (caught.value.held, caught.value.current) == (first, second)
            with pytest.raises(ControllerFenced):
                await one.append_if(0, [topic("a")], controller_epoch=second)  # it is another's
            await shared.settle()
            assert follower.image.version == 0
            assert await one.append_if(0, [topic("a")]) == 1, "what any broker may do, it may"

    asyncio.run(scenario())


def test_the_seat_is_lost_with_the_session_also_while_nobody_else_wants_it(shared):
    async def scenario():
        async with opened(shared) as (store, _):
            await store.register_broker(registration(1))
            held = await store.elect_controller(1)
            await shared.expire(store)
            await store.register_broker(registration(1))
            with pytest.raises(ControllerFenced):
                await store.append_if(0, [topic("a")], controller_epoch=held)
            assert await store.elect_controller(1) > held

    asyncio.run(scenario())


def test_a_session_that_ended_is_told_of_and_begun_again_by_registering(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, follower), (two, other)):
            first = await one.register_broker(registration(1))
            await shared.expire(one)
            assert len(follower.of(SessionEnded)) == 1
            assert follower.of(SessionEnded)[0].reason
            with pytest.raises(NoSession):
                await one.append_if(0, [topic("a")])
            with pytest.raises(NoSession):
                await one.elect_controller(1)
            await two.append_if(0, [topic("b")])
            second = await one.register_broker(registration(1, previous=first))
            assert second > first
            assert set(follower.image.topics) == {"b"}, "nothing was missed in between"
            assert await one.append_if(1, [topic("a", 2)]) == 2
            await shared.settle()
            assert other.live == {1: second}
            assert set(other.image.topics) == {"a", "b"}

    asyncio.run(scenario())


def test_a_broker_that_has_not_registered_yet_goes_on_hearing_of_changes(shared):
    """It starts, and its session ends meanwhile, as on a machine that stands still."""

    async def scenario():
        async with opened(shared, 2) as ((one, follower), (two, _)):
            await shared.settle()
            await shared.expire(one)
            await two.append_if(0, [topic("b")])
            await shared.settle()
            assert set(follower.image.topics) == {"b"}
            assert follower.of(SessionEnded) == []
            epoch = await two.register_broker(registration(2))
            await shared.settle()
            assert follower.live == {2: epoch}
            assert await one.append_if(1, [topic("a", 2)]) == 2

    asyncio.run(scenario())


def test_a_short_interruption_costs_nothing(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, follower), (two, other)):
            epoch = await one.register_broker(registration(1))
            held = await one.elect_controller(1)
            await shared.disconnect(one)
            await two.append_if(0, [topic("a")])
            await shared.wait_ms(SESSION_TIMEOUT_MS - 1)
            assert follower.image.version == 0, "nothing passes"
            await shared.reconnect(one)
            assert set(follower.image.topics) == {"a"}
            assert follower.of(SessionEnded) == []
            assert other.live == {1: epoch}
            await shared.wait_ms(SESSION_TIMEOUT_MS * 2)
            assert await one.append_if(1, [topic("b", 2)], controller_epoch=held) == 2

    asyncio.run(scenario())


def test_a_long_interruption_ends_the_session_on_both_sides(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, follower), (_, other)):
            await one.register_broker(registration(1))
            held = await one.elect_controller(1)
            await shared.settle()
            await shared.disconnect(one)
            await shared.wait_ms(SESSION_TIMEOUT_MS)
            assert len(follower.of(SessionEnded)) == shared.ends_while_away
            assert other.live == {}
            assert other.of(SeatVacant) == [SeatVacant(held)]
            await shared.reconnect(one)
            assert len(follower.of(SessionEnded)) == 1
            with pytest.raises(NoSession):
                await one.append_if(0, [topic("a")])

    asyncio.run(scenario())


def test_what_is_asked_for_while_the_store_is_away_waits(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, _), (two, _)):
            await shared.disconnect(one)
            waiting = asyncio.ensure_future(one.append_if(0, [topic("a")]))
            late = asyncio.ensure_future(one.register_broker(registration(1)))
            await shared.settle()
            assert not waiting.done()
            assert not late.done()
            await two.append_if(0, [topic("b")])
            await shared.reconnect(one)
            with pytest.raises(VersionConflict):
                await waiting
            assert await late > 0

    asyncio.run(scenario())


def test_an_append_whose_answer_was_lost_is_recognised(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, follower), (two, _)):
            shared.lose_answer(one)
            waiting = asyncio.ensure_future(one.append_if(0, [topic("a")]))
            await shared.settle()
            assert not waiting.done()
            assert await two.append_if(1, [topic("b", 2)]) == 2, "it was made"
            await shared.reconnect(one)
            assert await waiting == 1
            assert [event.version for event in follower.of(Entry)] == [1, 2]

    asyncio.run(scenario())


def test_an_append_whose_fate_cannot_be_told(shared):
    async def scenario():
        async with opened(shared, 2) as ((one, _), (_, other)):
            shared.lose_answer(one)
            waiting = asyncio.ensure_future(one.append_if(0, [topic("a")]))
            await shared.settle()
            await one.close()
            with pytest.raises(OutcomeUnknown):
                await waiting
            assert set(other.image.topics) == {"a"}

    asyncio.run(scenario())


def test_who_was_away_for_too_long_goes_on_from_a_snapshot(shared):
    async def scenario():
        shared.make_forgetful()
        async with opened(shared, 2) as ((one, follower), (two, other)):
            await one.append_if(0, [topic("a")])
            await shared.disconnect(one)
            for version in range(1, 20):
                await two.append_if(version, [ConfigsChanged(ResourceType.GROUP, "g", {"x": str(version)})])
            follower.take()
            await shared.reconnect(one)
            assert [type(event) for event in follower.events][:1] == [Snapshot]
            assert follower.image == other.image
            await one.register_broker(registration(1))
            assert await one.append_if(20, [topic("b", 2)]) == 21

    asyncio.run(scenario())
