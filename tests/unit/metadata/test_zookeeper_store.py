"""The ZooKeeper store on a real server: what the conformance suite, which every store passes, cannot ask.

Lost connections with unknown outcomes, entries larger than a node, crashed writers, hands that remove nodes,
a hanging event loop, credentials, nodes of others.
"""

import asyncio
import json
import random
import threading

import pytest
from kazoo import exceptions as zk
from kazoo.client import KazooClient
from test_metadata_conformance import Follower, opened, registration, topic
from zookeeper_world import WAIT_SECONDS, until

from moldau.broker.metadata.changes import (
    ClusterCreated,
    ConfigsChanged,
    PartitionChanged,
    PartitionsChanged,
    TopicCreated,
    replay,
)
from moldau.broker.metadata.difference import changes_between
from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState, ResourceType
from moldau.broker.metadata.store import (
    ControllerFenced,
    Entry,
    LiveBrokers,
    MetadataStoreError,
    NoSession,
    OutcomeUnknown,
    SeatVacant,
    SessionEnded,
    Snapshot,
    VersionConflict,
)
from moldau.broker.metadata.zookeeper import append_turns, following, sessions
from moldau.broker.metadata.zookeeper.append import Append
from moldau.broker.metadata.zookeeper.log_reading import LogReader, Offload
from moldau.broker.metadata.zookeeper.payload import entry_in_slices, pack
from moldau.broker.metadata.zookeeper.session import ConnectionAway
from moldau.broker.metadata.zookeeper.snapshots import Snapshots
from moldau.ensemble import Ensemble

pytestmark = pytest.mark.xdist_group("zookeeper")


def config(value, name="a"):
    return ConfigsChanged(ResourceType.TOPIC, name, {"x": value})


def large(size_bytes=3_000_000):
    """A change that no compression makes fit into one node."""
    return config(random.Random(1).randbytes(size_bytes).hex())


def reader_of(world, store):
    return LogReader(store.session, world.layout, store._offload)


def snapshots_of(world, store):
    return Snapshots(
        store.session, world.layout, reader_of(world, store), store._offload, random.SystemRandom()
    )


# Entries of any size


def test_an_entry_larger_than_a_node_is_there_whole_and_goes_with_its_parts(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, follower), (_, other)):
            await one.append_if(0, [large()])
            assert len(world.children(world.layout.parts)) == 4
            await world.settle()
            assert follower.image == other.image
            newcomer = world.make()
            assert await newcomer.open() == follower.image
            await newcomer.close()
            snapshots = snapshots_of(world, one)
            await snapshots.remove_orphans(age_ms=0)
            assert len(world.children(world.layout.parts)) == 4, "they are in use"
            await one.append_if(1, [config("small")])
            await snapshots.write(kept_entries=0)
            assert world.children(world.layout.parts) == []
            assert world.children(world.layout.entries) == []
            await one.append_if(2, [config("last")])
            await world.settle()
            assert other.image.configs == {(ResourceType.TOPIC, "a"): {"x": "last"}}

    asyncio.run(scenario())


def test_a_snapshot_larger_than_a_node(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world) as (one, follower):
            await one.append_if(0, [large()])
            await one.append_if(1, [config("b", name="b")])
            snapshots = snapshots_of(world, one)
            await snapshots.write(kept_entries=0)
            assert len(world.children(world.layout.parts)) == 4
            newcomer = world.make()
            assert await newcomer.open() == follower.image
            await newcomer.close()
            await one.append_if(2, [config("small")])
            await snapshots.write(kept_entries=0)
            assert world.children(world.layout.parts) == [], "the former snapshot's are removed"

    asyncio.run(scenario())


def test_large_entries_bring_snapshots_about_and_do_not_pile_up(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        store = world.make(snapshot_bytes=100_000)
        await store.open()
        source = random.Random(2)
        for version in range(12):
            await store.append_if(version, [config(source.randbytes(30_000).hex())])
            await store.appending.snapshot_written()
        assert len(world.children(world.layout.entries)) < 8
        image = await reader_of(world, store).snapshot()
        assert image.version > 8
        await store.close()

    asyncio.run(scenario())


def test_a_writer_that_crashed_before_its_entry_leaves_nothing_but_orphans(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world) as (one, follower):
            payload = next_value(entry_in_slices([large()]))
            crashed = Append(world.layout, 0, [], pack("crashed", payload, 1), None)
            await crashed._write_parts(one.session)
            assert len(world.children(world.layout.parts)) == 4
            await one.append_if(0, [topic("a")])
            assert set(follower.image.topics) == {"a"}
            await snapshots_of(world, one).remove_orphans()
            assert len(world.children(world.layout.parts)) == 4, "perhaps it is still at work"
            await snapshots_of(world, one).remove_orphans(age_ms=0)
            assert world.children(world.layout.parts) == []

    asyncio.run(scenario())


def next_value(steps):
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def test_parts_that_were_taken_for_a_crashed_writers_are_written_again(zookeeper_world, monkeypatch):
    world = zookeeper_world
    write_parts, written = Append._write_parts, []

    async def interfered(self, session):
        await write_parts(self, session)
        if not written:
            world.observer.delete(world.layout.part(self._packed.payload_id, 1))
        written.append(session)

    monkeypatch.setattr(Append, "_write_parts", interfered)

    async def scenario():
        async with opened(world) as (one, follower):
            assert await one.append_if(0, [large()]) == 1
            newcomer = world.make()
            assert await newcomer.open() == follower.image
            await newcomer.close()
        assert len(written) == 2

    asyncio.run(scenario())


def test_an_overtaken_writer_removes_its_parts(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, _), (two, _)):
            await one.append_if(0, [topic("a")])
            with pytest.raises(VersionConflict):
                await two.append_if(0, [large()])
            assert world.children(world.layout.parts) == []

    asyncio.run(scenario())


def test_of_two_snapshots_at_once_one_is_kept(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, follower), (two, _)):
            await one.append_if(0, [large()])
            await asyncio.gather(*(snapshots_of(world, each).write(kept_entries=0) for each in (one, two)))
            assert len(world.children(world.layout.parts)) == 4
            newcomer = world.make()
            assert await newcomer.open() == follower.image
            await newcomer.close()

    asyncio.run(scenario())


def test_a_broker_that_was_overtaken_goes_first(zookeeper_world, monkeypatch):
    world = zookeeper_world
    monkeypatch.setattr(append_turns, "GIVE_WAY_MS_MAX", WAIT_SECONDS * 1_000)

    async def scenario():
        async with opened(world, 2) as ((one, first), (two, second)):
            await one.append_if(0, [config("0")])
            with pytest.raises(VersionConflict):
                await two.append_if(0, [config("two")])
            assert len(world.children(world.layout.head)) == 1
            await one.append_if(1, [config("1")])
            waiting = asyncio.ensure_future(one.append_if(2, [config("2")]))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await world.settle()
            assert await two.append_if(second.image.version, [config("two")]) == 3
            with pytest.raises(VersionConflict):
                await waiting
            await until(lambda: not world.children(world.layout.head), "the claim's removal")
            assert await one.append_if(first.image.version, [config("3")]) == 4, "at once"
            assert await one.append_if(first.image.version, [config("4")]) == 5

    asyncio.run(scenario())


def test_nobody_waits_for_long_for_a_broker_that_gave_its_decision_up(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, _), (two, _)):
            await one.append_if(0, [config("0")])
            with pytest.raises(VersionConflict):
                await two.append_if(0, [config("two")])
            for version in range(1, 4):
                await one.append_if(version, [config(str(version))])
            await until(lambda: not world.children(world.layout.head), "the claim's removal")

    asyncio.run(scenario())


def test_ten_thousand_partitions_change_in_one_entry(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, follower), (_, other)):
            names = [f"topic-{number}" for number in range(100)]
            fresh = tuple(PartitionState.fresh((1, 2, 3)) for _ in range(100))
            made = [TopicCreated(name, name.encode().ljust(16, b"."), fresh) for name in names]
            await one.append_if(0, made)
            moved = fresh[0]._replace(leader=2, leader_epoch=1, partition_epoch=1, isr=(2, 3))
            changes = [PartitionsChanged(name, tuple((n, moved) for n in range(100))) for name in names]
            assert await one.append_if(1, changes) == 2
            await world.settle()
            assert other.image == follower.image
            assert {state.leader for state in other.image.topics["topic-7"].partitions} == {2}
            assert len(world.data(world.layout.entry(2))) < 900_000

    asyncio.run(scenario())


# Outcomes that are not known at first


def test_a_request_that_never_arrived_is_sent_again(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world) as (one, _):
            proxy = world.stores[one]
            proxy.hold()
            waiting = asyncio.ensure_future(one.append_if(0, [topic("a")]))
            await until(lambda: one.session._calls or not one.session.up)
            proxy.cut()
            await until(lambda: not one.session.up)
            assert world.head() == 0
            proxy.mend()
            assert await waiting == 1

    asyncio.run(scenario())


def test_a_request_that_never_arrived_is_overtaken(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, follower), (two, _)):
            proxy = world.stores[one]
            proxy.hold()
            waiting = asyncio.ensure_future(one.append_if(0, [topic("a")]))
            await until(lambda: one.session._calls or not one.session.up)
            proxy.cut()
            await two.append_if(0, [topic("b")])
            proxy.mend()
            with pytest.raises(VersionConflict):
                await waiting
            assert set(follower.image.topics) == {"b"}

    asyncio.run(scenario())


def test_a_lost_answer_of_an_entry_that_others_have_built_on(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, follower), (two, _)):
            world.lose_answer(one)
            waiting = asyncio.ensure_future(one.append_if(0, [topic("a")]))
            await world.settle()
            for version in range(1, 4):
                await two.append_if(version, [config(str(version))])
            await world.reconnect(one)
            assert await waiting == 1
            assert [event.version for event in follower.of(Entry)] == [1, 2, 3, 4]

    asyncio.run(scenario())


def test_an_append_of_the_controller_that_was_made_before_it_was_deposed(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, _), (two, _)):
            await one.register_broker(registration(1))
            held = await one.elect_controller(1)
            world.lose_answer(one)
            waiting = asyncio.ensure_future(one.append_if(0, [topic("a")], controller_epoch=held))
            await world.settle()
            world.observer.delete(world.layout.controller)
            assert await two.elect_controller(2) > held
            await world.reconnect(one)
            assert await waiting == 1
            with pytest.raises(ControllerFenced):
                await one.append_if(1, [topic("b", 2)], controller_epoch=held)

    asyncio.run(scenario())


def test_the_session_ends_before_the_answer_comes(zookeeper_world):
    """The next session finds out what became of the append, and begins whether the broker registers or not:
    it may be the decision about brokers that waits for the append."""
    world = zookeeper_world

    async def scenario(made, others, registers):
        async with opened(world, 2) as ((one, follower), (two, _)):
            version = follower.image.version
            if made:
                world.lose_answer(one)
            else:
                world.stores[one].hold()
            waiting = asyncio.ensure_future(one.append_if(version, [config("one")]))
            await until(lambda: one.session._calls or not one.session.up)
            if made:
                await world.settle()
            await world.disconnect(one)
            if others:
                await two.append_if(version + made, [config("two")])
            await world.expire(one)
            if registers:
                await one.register_broker(registration(1))
            if made:
                assert await waiting == version + 1
            else:
                with pytest.raises(VersionConflict if others else OutcomeUnknown):
                    await waiting
            await world.settle()
            assert follower.image.version == version + made + others

    for made in (True, False):
        for others in (True, False):
            asyncio.run(scenario(made, others, registers=made is others))


def test_a_snapshot_is_compared_with_the_image_beside_the_event_loop(zookeeper_world, monkeypatch):
    world, threads = zookeeper_world, []

    def compare(old, new):
        threads.append(threading.get_ident())
        return changes_between(old, new)

    monkeypatch.setattr(following, "changes_between", compare)

    async def scenario():
        async with opened(world) as (two, _):
            one, follower = world.make(), Follower()
            try:
                await one.open()
                await one.follow(0, follower, lambda: follower.image)
                await two.append_if(0, [topic("a"), topic("b", 2)])
                await world.settle()
                before = follower.image
                assert set(before.topics) == {"a", "b"}
                world.stores[one].cut()
                for version in range(1, 4):
                    await two.append_if(version, [config(str(version))])
                await snapshots_of(world, two).write(kept_entries=1)
                await world.reconnect(one)
                (snapshot,) = follower.of(Snapshot)
                assert snapshot.since is before
                assert snapshot.changes == [config("3")]
                assert replay(before, 4, snapshot.changes) == snapshot.image == follower.image
                assert threads
                assert threading.get_ident() not in threads
            finally:
                await one.close()

    asyncio.run(scenario())


def test_an_append_whose_entry_was_removed_before_it_could_look_has_an_unknown_outcome(zookeeper_world):
    """Not overtaken: it would be decided again, and made twice."""
    world = zookeeper_world

    async def scenario(session_ends):
        async with opened(world, 2) as ((one, follower), (two, _)):
            version = follower.image.version
            world.lose_answer(one)
            waiting = asyncio.ensure_future(one.append_if(version, [config("one")]))
            await world.settle()
            await until(lambda: not one.session.up)
            world.stores[one].cut()
            for step in range(1, 4):
                await two.append_if(version + step, [config(str(step))])
            await snapshots_of(world, two).write(kept_entries=1)
            if session_ends:
                world.end_session(one)
            await world.reconnect(one)
            with pytest.raises(OutcomeUnknown):
                await waiting
            await world.settle()
            assert follower.image.version == version + 4

    for session_ends in (False, True):
        asyncio.run(scenario(session_ends))


def test_a_look_that_fails_while_the_connection_comes_back_leaves_nobody_deaf(zookeeper_world, monkeypatch):
    """A loop that was busy hears of the loss and of the new connection at once."""
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, follower), (two, _)):
            look = one.following._look_at_brokers

            async def failing(session):
                monkeypatch.undo()
                one._connected()
                raise ConnectionAway

            monkeypatch.setattr(one.following, "_look_at_brokers", failing)
            await two.register_broker(registration(2))
            await until(lambda: 2 in follower.live)
            assert one.following._look_at_brokers == look

    asyncio.run(scenario())


def test_a_session_that_ends_at_the_end_of_the_registration_is_not_taken_for_registered(
    zookeeper_world, monkeypatch
):
    """Else its end would never be heard of."""
    world = zookeeper_world

    async def scenario():
        async with opened(world) as (one, follower):
            look, ended = one.following.look, []

            async def ending(session, what):
                await look(session, what)
                if not ended:
                    ended.append(session)
                    session.end("at this moment")

            monkeypatch.setattr(one.following, "look", ending)
            epoch = await one.register_broker(registration(1))
            assert follower.of(SessionEnded) == [], "it has not been told of a registration"
            assert follower.live == {1: epoch}
            assert one.session not in (None, *ended)

    asyncio.run(scenario())


def test_who_was_overtaken_when_the_session_ended_is_not_told_that_it_knows_all(zookeeper_world, monkeypatch):
    """A controller that asks whether it is up to date would believe it."""
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, _), (two, _)):
            looked = one.following._look_at_log

            async def ending(session):
                session.end("at this moment")
                return await looked(session)

            monkeypatch.setattr(one.following, "wake", lambda what: None)  # the news is on its way
            monkeypatch.setattr(one.following, "_look_at_log", ending)
            await two.append_if(0, [topic("a")])
            with pytest.raises(NoSession):
                await one.append_if(0, [])
            monkeypatch.undo()

    asyncio.run(scenario())


# An ensemble that fails


def test_appends_go_on_while_the_leading_member_is_killed(zookeeper_world, tmp_path):
    """None is lost, none is made twice, and no session ends."""
    world = zookeeper_world

    async def scenario(ensemble):
        changed = {"hosts": ensemble.connect_string}
        one, follower = world.make(**changed), Follower()
        await one.open()
        await one.follow(0, follower)
        await one.register_broker(registration(1))
        for version in range(40):
            if version == 20:
                ensemble.leader().kill()
            assert await one.append_if(version, [config(str(version))]) == version + 1
        assert [event.version for event in follower.of(Entry)] == list(range(1, 41))
        assert follower.of(SessionEnded) == []
        await one.close()

    with Ensemble(tmp_path, 3, syncs=False) as ensemble:
        asyncio.run(scenario(ensemble))


def test_a_session_lives_through_an_ensemble_that_was_away(zookeeper_world):
    """Also for longer than the session would have lasted without a sign of life."""
    world = zookeeper_world
    session_ms = 2_000

    async def scenario():
        one, follower = world.make(session_timeout_ms=session_ms), Follower()
        await one.open()
        await one.follow(0, follower)
        await one.register_broker(registration(1))
        held = await one.elect_controller(1)
        world.server.kill()
        await until(lambda: not one.session.up)
        waiting = asyncio.ensure_future(one.append_if(0, [topic("a")], controller_epoch=held))
        await asyncio.sleep(session_ms * 1.2 / 1000)
        assert not waiting.done()
        await asyncio.get_running_loop().run_in_executor(None, world.server.start)
        await until(waiting.done)
        if not follower.of(SessionEnded):  # else the machine is so busy that it ended after that
            assert await waiting == 1
            assert set(follower.live) == {1}
        await one.close()

    asyncio.run(scenario())


# A broker that hangs, and hands that remove nodes


def test_a_broker_whose_event_loop_hangs_gives_its_session_up(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        one, follower = world.make(session_timeout_ms=2_000), Follower()
        await one.open()
        await one.follow(0, follower)
        first = await one.register_broker(registration(1))
        seen = threading.Event()

        def look():
            while world.children(world.layout.ids):
                seen.wait(0.01)
            seen.set()

        threading.Thread(target=look, daemon=True).start()
        assert seen.wait(WAIT_SECONDS), "others see that it is gone while it hangs"
        await until(lambda: follower.of(SessionEnded))
        assert follower.of(SessionEnded)[0].reason
        with pytest.raises(NoSession):
            await one.append_if(0, [topic("a")])
        assert await one.register_broker(registration(1)) > first
        await one.close()

    asyncio.run(scenario())


def test_a_registration_that_somebody_removed_is_made_again(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world) as (one, follower):
            await one.register_broker(registration(1))
            (name,) = world.children(world.layout.live)
            world.observer.delete(f"{world.layout.live}/{name}")
            await until(lambda: follower.of(SessionEnded))
            await one.register_broker(registration(1))
            assert set(follower.live) == {1}

    asyncio.run(scenario())


def test_a_controller_whose_node_somebody_removed_is_deposed(zookeeper_world):
    """As administrators do with Kafka, to have another controller."""
    world = zookeeper_world

    async def scenario():
        async with opened(world, 2) as ((one, first), (_, second)):
            await one.register_broker(registration(1))
            held = await one.elect_controller(1)
            world.observer.delete(world.layout.controller)
            await world.settle()
            assert first.of(SeatVacant) == second.of(SeatVacant) == [SeatVacant(held)]
            with pytest.raises(ControllerFenced):
                await one.append_if(0, [topic("a")], controller_epoch=held)
            assert await one.elect_controller(1) == held + 1

    asyncio.run(scenario())


def test_a_missing_entry_is_said_and_nothing_is_skipped(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        async with opened(world) as (one, _):
            for version in range(3):
                await one.append_if(version, [config(str(version))])
            world.observer.delete(world.layout.entry(2))
            newcomer = world.make()
            with pytest.raises(MetadataStoreError, match=r"0000000002 is missing"):
                await newcomer.open()

    asyncio.run(scenario())


# What others see


def test_kafkas_discovery_nodes(zookeeper_world):
    world, layout = zookeeper_world, zookeeper_world.layout

    async def scenario():
        store = world.make(protocols={"PLAINTEXT": "PLAINTEXT", "CLIENTS": "SASL_SSL"})
        follower = Follower(await store.open())
        await store.follow(0, follower)
        broker = registration(7)._replace(endpoints={"CLIENTS": ("h", 1), "PLAINTEXT": ("::1", 9092)})
        epoch = await store.register_broker(broker)
        assert follower.of(LiveBrokers)[-1].brokers == {7: broker._replace(broker_epoch=epoch)}
        assert world.observer.get(layout.broker(7))[1].czxid == epoch
        value = json.loads(world.data(layout.broker(7)))
        assert int(value.pop("timestamp")) > 1_600_000_000_000
        assert value == {
            "version": 5,
            "host": "::1",
            "port": 9092,
            "jmx_port": -1,
            "endpoints": ["CLIENTS://h:1", "PLAINTEXT://[::1]:9092"],
            "listener_security_protocol_map": {"CLIENTS": "SASL_SSL", "PLAINTEXT": "PLAINTEXT"},
            "rack": "rack",
            "features": {},
        }
        held = await store.elect_controller(7)
        assert json.loads(world.data(layout.controller))["brokerid"] == 7
        assert int(world.data(layout.controller_epoch)) == held
        await store.append_if(0, [ClusterCreated("abc")])
        assert json.loads(world.data(layout.cluster_id)) == {"version": "1", "id": "abc"}
        await store.close()
        assert world.children(layout.ids) == []
        assert not world.observer.exists(layout.controller)

    asyncio.run(scenario())


def test_credentials_keep_others_out(zookeeper_world):
    world, layout = zookeeper_world, zookeeper_world.layout
    stranger = KazooClient(world.server.connect_string, auth_data=[("digest", "eve:guess")], timeout=20)

    async def scenario():
        store = world.make(credentials="moldau:secret", private=True)
        await store.open()
        await store.register_broker(registration(1))
        await store.elect_controller(1)
        await store.append_if(0, [ClusterCreated("abc"), config("a password")])
        await snapshots_of(world, store).write(kept_entries=1)
        for path in (layout.base, layout.head, layout.entry(1), layout.snapshot):
            with pytest.raises(zk.NoAuthError):
                stranger.get(path)
        for path in (layout.broker(1), layout.controller, layout.cluster_id):
            assert stranger.get(path)[0], "discovery is for everybody"
            with pytest.raises(zk.NoAuthError):
                stranger.set(path, b"")
        with pytest.raises(zk.NoAuthError):
            stranger.create(f"{layout.ids}/2", b"", ephemeral=True)
        again = world.make(credentials="moldau:secret", private=True)
        assert (await again.open()).cluster_id == "abc"
        await again.close()
        for wrong in ("moldau:wrong", None):
            refused = world.make(credentials=wrong)
            with pytest.raises(MetadataStoreError, match=r"other credentials.*moldau\.zookeeper\.user"):
                await refused.open()
        await store.close()

    stranger.start(WAIT_SECONDS)
    try:
        asyncio.run(scenario())
    finally:
        stranger.stop()
        stranger.close()


def test_a_chroot_that_is_anothers(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        store = world.make()
        with pytest.raises(MetadataStoreError, match=r"another system .*a chroot of its own"):
            await store.open()

    world.observer.create(world.layout.ids, makepath=True)
    asyncio.run(scenario())


def test_a_newer_format(zookeeper_world):
    world = zookeeper_world

    async def scenario():
        store = world.make()
        with pytest.raises(MetadataStoreError, match=r"format 2, and this version of Moldau knows"):
            await store.open()

    world.observer.create(world.layout.base, b'{"format":2}', makepath=True)
    asyncio.run(scenario())


def test_no_zookeeper_there(zookeeper_world, monkeypatch, caplog):
    monkeypatch.setattr(sessions, "_SILENT_MS", 1)

    async def scenario():
        store = zookeeper_world.make(hosts="127.0.0.1:1,localhost:1", connection_timeout_ms=300)
        with pytest.raises(
            MetadataStoreError,
            match=r"no ZooKeeper answered at 127\.0\.0\.1:1,localhost:1 within 300 ms .*refused.*is it run",
        ):
            await store.open()

    asyncio.run(scenario())
    assert "no ZooKeeper answers at 127.0.0.1:1,localhost:1 yet; the start waits" in caplog.text


def test_a_session_of_another_length_than_asked_for_is_said(zookeeper_world, caplog):
    async def scenario():
        store = zookeeper_world.make(session_timeout_ms=90_000)
        await store.open()
        await until(lambda: store.session.timeout_ms == 60_000)
        await store.close()
        store = zookeeper_world.make()
        await store.open()
        await store.close()

    asyncio.run(scenario())
    said = [record.getMessage() for record in caplog.records if "gives sessions of" in record.getMessage()]
    assert len(said) == 1
    assert "sessions of 60000 ms, not the 90000 ms" in said[0]


def test_many_brokers_begin_at_once_on_an_empty_ensemble(zookeeper_world):
    async def scenario():
        stores = [zookeeper_world.make() for _ in range(6)]
        images = await asyncio.gather(*(store.open() for store in stores))
        assert images == [EMPTY_IMAGE] * 6
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(scenario())


def test_partitions_of_one_large_topic_are_read_in_a_worker(zookeeper_world):
    """What is long to decode does not hold the event loop."""
    world, decoded = zookeeper_world, []

    async def scenario():
        store = world.make()
        await store.open()
        states = tuple(PartitionState.fresh((1, 2, 3)) for _ in range(5_000))
        await store.append_if(0, [TopicCreated("a", bytes(16), states)])
        await store.append_if(1, [PartitionChanged("a", 0, states[0]._replace(leader=2))])

        async def run(function):
            decoded.append(threading.current_thread())
            await asyncio.get_running_loop().run_in_executor(None, function)

        reader = LogReader(store.session, world.layout, Offload(run))
        assert len((await reader.entry(1))[0].partitions) == 5_000
        assert decoded
        decoded.clear()
        assert await reader.entry(2)
        assert not decoded
        assert await reader.entry(3) is None
        await store.close()

    asyncio.run(scenario())


def test_a_session_that_ends_while_the_metadata_is_read_is_followed_by_another(zookeeper_world, monkeypatch):
    """A broker that starts on a busy machine hangs for longer than its session, and starts all the same."""
    world = zookeeper_world
    reads = []

    async def scenario():
        async with opened(world, 1) as (one, _):
            await one.append_if(0, [config("a")])
            newcomer = world.make()
            read = newcomer._read

            async def interrupted(session):
                reads.append(session)
                if len(reads) == 1:
                    session.end("the event loop stood still")
                if len(reads) == 2:
                    raise ConnectionAway
                return await read(session)

            monkeypatch.setattr(newcomer, "_read", interrupted)
            image = await newcomer.open()
            assert image.version == 1
            assert len({id(session) for session in reads}) == 3
            assert [bool(session.over) for session in reads] == [True, True, False]
            await newcomer.close()

    asyncio.run(scenario())
