"""Several brokers' controllers on one store: the seat, the brokers that come and go, sessions that end."""

import asyncio

import pytest
from controller_cluster import SESSION_TIMEOUT_MS, run

from moldau.broker.controller.configs import AlterResource
from moldau.broker.controller.decision import Decision
from moldau.broker.controller.partitions import AlterPartition
from moldau.broker.controller.presence import _RETRY_DELAY_MS
from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.changes import FeatureLevelChanged, PartitionsChanged
from moldau.broker.metadata.codec import UnknownChange
from moldau.broker.metadata.image import PartitionState
from moldau.broker.metadata.levels import LEVEL_MAX
from moldau.broker.metadata.store import MetadataStoreError
from moldau.common.protocol.errors import ErrorCode


def test_the_first_broker_is_the_controller_and_all_know_the_same():
    async def scenario(cluster):
        image = cluster.image
        assert (image.controller_id, image.controller_epoch) == (1, 1)
        assert sorted(image.brokers) == [1, 2, 3]
        assert all(not broker.fenced for broker in image.brokers.values())
        epochs = {node_id: each.this_broker.broker_epoch for node_id, each in cluster.brokers.items()}
        assert {n: broker.broker_epoch for n, broker in image.brokers.items()} == epochs

    run(scenario)


def test_brokers_that_start_together_make_one_cluster():
    async def scenario(cluster):
        await asyncio.gather(*(cluster.start(node_id) for node_id in (1, 2, 3)))
        image = cluster.image
        assert sorted(image.live_brokers()) == [image.brokers[n] for n in (1, 2, 3)]
        assert len({each.view.image.cluster_id for each in cluster.brokers.values()}) == 1

    run(scenario, count=0)


def test_a_broker_that_crashes_is_fenced_and_its_partitions_get_other_leaders():
    async def scenario(cluster):
        await cluster.topic(replicas=(3, 1, 2))
        assert cluster.partition() == (3, (3, 1, 2), ())
        await cluster.crash(3)
        assert cluster.image.brokers[3].fenced
        assert cluster.partition() == (1, (1, 2), ())
        (again,) = await cluster.start(3)
        assert not cluster.image.brokers[3].fenced
        assert cluster.partition() == (1, (1, 2), ()), "its log must catch up before it is in sync"
        assert again.this_broker.broker_epoch == cluster.image.brokers[3].broker_epoch

    run(scenario)


def test_when_the_controller_crashes_another_takes_the_seat_and_fences_it():
    async def scenario(cluster):
        await cluster.topic(replicas=(1, 2, 3))
        await cluster.crash(1)
        image = cluster.image
        assert image.controller_id in (2, 3)
        assert image.controller_epoch == 2
        assert image.brokers[1].fenced
        assert cluster.partition() == (2, (2, 3), ())

    run(scenario)


def test_a_broker_that_stops_in_order_is_fenced_at_once():
    async def scenario(cluster):
        await cluster.brokers.pop(1).this_broker.close()
        await cluster.settle()
        assert cluster.image.brokers[1].fenced
        assert cluster.image.controller_id in (2, 3)

    run(scenario)


@pytest.mark.parametrize("clean", [True, False])
def test_only_a_clean_stop_keeps_a_broker_eligible(clean):
    async def scenario(cluster):
        await cluster.topic(replicas=(1, 2))
        epoch = cluster.brokers[1].this_broker.broker_epoch
        await cluster.crash(2)
        assert cluster.partition() == (1, (1,), (2,))
        await cluster.crash(1)
        assert cluster.partition() == (-1, (), (1, 2))
        await cluster.start(1, previous=epoch if clean else -1)
        assert cluster.partition() == ((1, (1,), (2,)) if clean else (-1, (), (2,)))

    run(scenario)


@pytest.mark.parametrize("node_id", [1, 2])
def test_a_broker_whose_session_ended_registers_again_by_itself(node_id):
    async def scenario(cluster):
        await cluster.topic(replicas=(node_id, 3))
        before = cluster.image
        cluster.ensemble.expire(cluster.stores[node_id])
        await cluster.settle()
        image = cluster.image
        assert image.brokers[node_id].broker_epoch > before.brokers[node_id].broker_epoch
        assert image.brokers[node_id].broker_epoch == cluster.brokers[node_id].this_broker.broker_epoch
        assert not image.brokers[node_id].fenced
        assert cluster.partition()[0] in (node_id, 3)
        assert image.controller_epoch == before.controller_epoch + (node_id == 1)
        assert image.brokers[image.controller_id].fenced is False

    run(scenario)


def test_a_controller_that_was_cut_off_is_replaced_and_comes_back_as_a_broker():
    async def scenario(cluster):
        await cluster.topic(replicas=(1, 2, 3))
        cluster.ensemble.disconnect(cluster.stores[1])
        await cluster.wait_ms(SESSION_TIMEOUT_MS)
        assert cluster.image.controller_id in (2, 3)
        assert cluster.partition() == (2, (2, 3), ())
        assert cluster.brokers[1].this_broker.presence.controller_epoch is None
        assert cluster.brokers[1].view.image.controller_id == 1, "it has not heard of it yet"
        cluster.ensemble.reconnect(cluster.stores[1])
        await cluster.settle()
        image = cluster.image
        assert image.controller_id in (2, 3)
        assert not image.brokers[1].fenced
        assert cluster.partition() == (2, (2, 3), ())

    run(scenario)


def test_a_broker_that_was_away_goes_on_from_a_snapshot():
    async def scenario(cluster):
        cluster.ensemble.kept_entries_max = 2
        heard = []
        cluster.brokers[3].view.subscribe(lambda old, new, changes: heard.append((old, new, list(changes))))
        cluster.ensemble.disconnect(cluster.stores[3])
        for number in range(5):
            await cluster.topic(f"t{number}", (1, 2))
        await cluster.brokers[1].delete_topics([("t0", bytes(16))])
        cluster.ensemble.reconnect(cluster.stores[3])
        await cluster.settle()
        assert set(cluster.image.topics) == {"t1", "t2", "t3", "t4"}
        (old, new, changes), *_ = heard
        assert new.version - old.version == 6, "one step for all that was missed"
        assert sorted(change.name for change in changes) == ["t1", "t2", "t3", "t4"]

    run(scenario)


def test_a_deposed_controller_decides_nothing_more():
    async def scenario(cluster):
        await cluster.topic(replicas=(3, 1, 2))
        deposed = cluster.brokers[1].this_broker.presence
        held = deposed.controller_epoch
        cluster.ensemble.elect = lambda session: None  # nobody takes the seat for now
        cluster.ensemble.expire(cluster.stores[1])
        await cluster.settle()
        version = cluster.image.version
        deposed.controller_epoch = held  # as if it had not noticed
        await cluster.brokers.pop(3).this_broker.close()
        await cluster.settle()
        assert cluster.image.version == version, "what it decided was refused"
        assert deposed.controller_epoch is None
        del cluster.ensemble.elect
        cluster.brokers[2].this_broker.presence._seat_sought = True
        cluster.brokers[2].this_broker.presence._wake()
        await cluster.settle()
        assert cluster.image.controller_id == 2
        assert cluster.partition() == (1, (1, 2), ())

    run(scenario)


def test_after_a_crash_a_broker_waits_until_its_last_session_has_ended(caplog):
    async def scenario(cluster):
        await cluster.vanish(3)
        again = await cluster.begin(3)
        joining = asyncio.ensure_future(again.this_broker.register({"P": ("host", 1)}))
        await cluster.wait_ms(SESSION_TIMEOUT_MS - 1)
        assert not joining.done()
        told = [record.getMessage() for record in caplog.records if "waiting" in record.getMessage()]
        assert told == ["a broker with node.id=3 is registered already; waiting until it is free"]
        await cluster.wait_ms(1)
        assert cluster.image.brokers[3].broker_epoch == await joining

    run(scenario)


def test_a_broker_that_is_refused_does_not_start():
    async def scenario(cluster):
        broker = await cluster.begin(4)

        async def refuse(registration):
            raise MetadataStoreError("not in this cluster")

        cluster.stores[4].register_broker = refuse
        with pytest.raises(MetadataStoreError, match="not in this cluster"):
            await broker.this_broker.register({})
        await broker.this_broker.close()
        del cluster.brokers[4]

    run(scenario)


def test_what_the_controller_cannot_write_down_is_tried_again():
    async def scenario(cluster):
        await cluster.topic(replicas=(3, 1, 2))
        store, failures = cluster.stores[1], [OSError("disk"), OSError("disk")]
        append = store.append_if

        async def failing(*arguments, **named):
            if failures:
                raise failures.pop()
            return await append(*arguments, **named)

        store.append_if = failing
        await cluster.brokers.pop(3).this_broker.close()
        await cluster.settle()
        assert cluster.partition()[0] == 3
        await cluster.wait_ms(_RETRY_DELAY_MS)
        await cluster.wait_ms(_RETRY_DELAY_MS)
        assert cluster.partition() == (1, (1, 2), ())

    run(scenario)


def test_requests_at_different_brokers_are_all_carried_out():
    async def scenario(cluster):
        results = await asyncio.gather(
            *(cluster.brokers[n % 3 + 1].create_topics([NewTopic(f"t{n % 4}")]) for n in range(12))
        )
        codes = [result.outcome.error_code for (result,) in results]
        assert codes.count(ErrorCode.NONE) == 4
        assert codes.count(ErrorCode.TOPIC_ALREADY_EXISTS) == 8
        blocks = await asyncio.gather(*(each.allocate_producer_ids() for each in cluster.brokers.values()))
        assert sorted(block.start for block in blocks) == [0, 1000, 2000]
        await cluster.settle()
        assert set(cluster.image.topics) == {"t0", "t1", "t2", "t3"}

    run(scenario)


def test_a_request_waits_while_the_store_is_away_and_says_so_when_it_ends():
    async def scenario(cluster):
        broker, store = cluster.brokers[2], cluster.stores[2]
        cluster.ensemble.disconnect(store)
        waiting = asyncio.ensure_future(broker.create_topics([NewTopic("a")]))
        await cluster.settle()
        assert not waiting.done()
        cluster.ensemble.reconnect(store)
        (result,) = await waiting
        assert result.outcome.error_code is ErrorCode.NONE

        cluster.ensemble.disconnect(store)
        waiting = asyncio.ensure_future(broker.create_topics([NewTopic("b")]))
        await cluster.settle()
        await cluster.brokers.pop(2).this_broker.close()
        (result,) = await waiting
        assert result.outcome.error_code is ErrorCode.NOT_CONTROLLER
        assert "try again" in result.outcome.message

    run(scenario)


def test_an_unclean_election_that_is_allowed_later_takes_place():
    async def scenario(cluster):
        await cluster.topic(replicas=(3,))
        await cluster.topic("b", replicas=(3, 2))
        await cluster.crash(2)
        await cluster.crash(3)
        await cluster.start(2)
        assert cluster.partition("b") == (-1, (), (3,))
        allowed = AlterResource(2, "b", [("unclean.leader.election.enable", 0, "true")])
        await cluster.brokers[2].alter_configs([allowed])
        await cluster.settle()
        assert cluster.partition("b") == (2, (2,), ())
        assert cluster.partition("a") == (-1, (), (3,))

    run(scenario)


def test_two_in_sync_changes_race_and_one_is_told_that_it_lost():
    """A leader that was deposed a moment ago, and has not heard of it, asks as well."""

    async def scenario(cluster):
        await cluster.topic(replicas=(3, 1, 2))
        deposed, epoch = cluster.brokers[3], cluster.brokers[3].this_broker.broker_epoch
        asked = AlterPartition("a", 0, 0, 0, (3, 1), (epoch, -1))
        racing = [deposed.alter_partitions(3, epoch, [asked]) for _ in range(2)]
        codes = sorted(outcome.error_code for ((_, outcome, _),) in await asyncio.gather(*racing))
        assert codes == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
        await cluster.settle()
        assert cluster.partition() == (3, (3, 1), ())

        cluster.ensemble.disconnect(cluster.stores[3])
        late = asyncio.ensure_future(deposed.alter_partitions(3, epoch, [AlterPartition("a", 0, 0, 1, (3,))]))
        await cluster.wait_ms(SESSION_TIMEOUT_MS)
        assert cluster.partition() == (1, (1,), (3,))
        cluster.ensemble.reconnect(cluster.stores[3])
        ((_, outcome, state),) = await late
        assert (outcome.error_code, state) in [
            (ErrorCode.NOT_CONTROLLER, None),  # it has no session
            (ErrorCode.STALE_BROKER_EPOCH, None),  # it was registered anew
            (ErrorCode.FENCED_LEADER_EPOCH, None),
        ]
        await cluster.settle()
        assert cluster.partition() == (1, (1,), (3,))

    run(scenario)


@pytest.mark.parametrize(("count", "level"), [(1, LEVEL_MAX), (2, 1)])
def test_a_broker_alone_raises_the_level_of_what_it_brought_along(count, level):
    async def scenario(cluster):
        first = await cluster.begin(1, in_cluster=True)
        await first._loop.decide(lambda image: Decision([FeatureLevelChanged(1)], None))
        if count == 2:
            await cluster.start(2)
        await first.this_broker.register({"P": ("host", 9091)})
        await cluster.settle()
        assert cluster.image.level == level
        assert cluster.image.brokers[1].levels == ((1, LEVEL_MAX) if level == LEVEL_MAX else (1, 1))

    run(scenario, count=0)


def test_a_newer_cluster_is_not_joined_and_the_sentence_says_why():
    async def scenario(cluster):
        cluster.ensemble.image = cluster.ensemble.image._replace(level=9)
        with pytest.raises(
            (MetadataStoreError, UnknownChange),
            match=f"at level 9, and this .* reads levels 1 to {LEVEL_MAX}",
        ):
            await cluster.begin(1)

    run(scenario, count=0)


def test_two_brokers_with_one_id_and_one_gives_up():
    async def scenario(cluster):
        second = await cluster.begin(1)
        joining = asyncio.ensure_future(
            second.this_broker.register({"P": ("elsewhere", 1)}, directories=["other"])
        )
        await cluster.settle()
        await cluster.wait_ms(59_999)
        assert not joining.done()
        await cluster.wait_ms(1)
        with pytest.raises(
            MetadataStoreError, match=r"node\.id=1 is registered already; give each broker its own"
        ):
            await joining
        await second.this_broker.close()
        assert cluster.image.brokers[1].endpoints == {"P": ("host", 9091)}
        cluster.brokers[1], cluster.stores[1] = cluster.brokers[2], cluster.stores[2]

    run(scenario, count=2)


def test_a_broker_that_was_killed_takes_its_own_place():
    async def scenario(cluster):
        await cluster.topic(replicas=(1, 2, 3))
        await cluster.brokers.pop(1).this_broker.close()
        again = await cluster.begin(1)
        await again.this_broker.register({"P": ("host", 9091)}, directories=["disk"])
        await cluster.settle()
        await cluster.in_sync("a", (2, 3, 1))
        epoch = again.this_broker.broker_epoch
        await cluster.vanish(1)
        again = await cluster.begin(1)
        assert await again.this_broker.register({"P": ("host", 9091)}, directories=["disk"]) > epoch
        await cluster.settle()
        assert cluster.partition() == (2, (2, 3), ()), "its log must catch up before it is in sync"

    run(scenario)


def test_a_controller_whose_own_disk_hangs_goes_on_deciding_about_the_others():
    async def scenario(cluster):
        await cluster.topic("a", (2, 3, 1))
        hangs = asyncio.get_running_loop().create_future()
        cluster.brokers[1].view.subscribe(lambda old, new, changes: hangs)
        await cluster.crash(2)
        assert cluster.partition() == (3, (3, 1), ())
        await cluster.crash(3)
        assert cluster.image.brokers[3].fenced
        assert cluster.partition() == (1, (1,), (3,))
        hangs.set_result(None)

    run(scenario)


def test_a_decision_in_several_entries_gets_on_while_others_append_all_the_time():
    """Else a failover that takes a second to decide would never come about."""

    async def scenario(cluster):
        for name in ("a", "b", "c"):
            await cluster.topic(name)
        one, store = cluster.brokers[1], cluster.stores[1]
        images, overtaken_at, append_if = [], [], store.append_if

        def decide(image):
            images.append(image)
            due = [name for name in "abc" if image.topics[name].partitions[0].isr != (1, 2)]
            entries = [
                [PartitionsChanged(name, ((0, PartitionState(1, 0, 1, (1, 2, 3), (1, 2))),))] for name in due
            ]
            return Decision(entries[-1] if entries else [], None, entries[:-1])

        async def overtaken(version, changes, *, controller_epoch=None):
            if version == images[-1].version not in overtaken_at and len(images) < 3:
                overtaken_at.append(version)
                await cluster.brokers[2].allocate_producer_ids()
            return await append_if(version, changes, controller_epoch=controller_epoch)

        store.append_if = overtaken
        await one._loop.decide(decide)
        await cluster.settle()
        assert [cluster.image.topics[name].partitions[0].isr for name in "abc"] == [(1, 2)] * 3
        assert [images[1].topics[name].partitions[0].isr for name in "ab"] == [(1, 2)] * 2
        assert len(overtaken_at) == 2 < len(images) == 3

    run(scenario)


def test_of_a_decision_in_several_entries_what_others_have_changed_is_decided_again():
    async def scenario(cluster):
        for name in ("a", "b", "c"):
            await cluster.topic(name, (2, 1, 3))
        one, store = cluster.brokers[1], cluster.stores[1]
        images, append_if = [], store.append_if

        def decide(image):
            images.append(image)
            entries = [
                [PartitionsChanged(name, ((0, state._replace(partition_epoch=state.partition_epoch + 1)),))]
                for name in "abc"
                if (state := image.topics[name].partitions[0]).isr == (2, 1, 3) and not state.partition_epoch
            ]
            return Decision(entries[-1] if entries else [], None, entries[:-1])

        async def overtaken(version, changes, *, controller_epoch=None):
            if len(images) == 1 and version == images[0].version:
                await cluster.in_sync("b", (2, 1))
            return await append_if(version, changes, controller_epoch=controller_epoch)

        store.append_if = overtaken
        await one._loop.decide(decide)
        await cluster.settle()
        epochs = [cluster.image.topics[name].partitions[0][2:5:2] for name in "abc"]
        assert epochs == [(1, (2, 1, 3)), (1, (2, 1)), (1, (2, 1, 3))], "b is as its leader has asked"
        assert len(images) == 2

    run(scenario)
