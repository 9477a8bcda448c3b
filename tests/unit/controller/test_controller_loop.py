"""The controller loop on the embedded store: order, restarts, conflicts, failures, many topics."""

import asyncio
import gc
import random
import time

import pytest

from moldau.broker.controller.adoption import FoundTopic
from moldau.broker.controller.configs import AlterResource
from moldau.broker.controller.controller import Controller
from moldau.broker.controller.decision import Decision, Outcome
from moldau.broker.controller.election import ElectionType
from moldau.broker.controller.loop import AWAY_MS, DecisionLoop
from moldau.broker.controller.partitions import AlterPartition, MorePartitions
from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.changes import ClusterCreated, FeatureLevelChanged, replay
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.image import EMPTY_IMAGE, ResourceType
from moldau.broker.metadata.store import OutcomeUnknown, Snapshot, StoreStatus, VersionConflict
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.clock import ManualClock
from moldau.common.core.ids import ZERO_UUID
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.sources import from_texts

ENDPOINTS = {"PLAINTEXT": ("127.0.0.1", 9092)}


async def start(folder, node_id=1, store=None, **texts):
    texts = {name.replace("_", "."): value for name, value in texts.items()}
    static = from_texts({"node.id": str(node_id), **texts})
    controller = Controller(node_id, store or EmbeddedStore(folder), MetadataView(), static, random.Random(5))
    await controller.this_broker.open()
    await controller.this_broker.register(ENDPOINTS)
    return controller


def test_a_cluster_is_born_once_and_lives_through_restarts(tmp_path):
    async def scenario():
        controller = await start(tmp_path)
        first = controller.view.image
        assert len(first.cluster_id) == 22
        assert first.controller_id == 1
        assert first.brokers[1].endpoints == ENDPOINTS
        await controller.create_topics([NewTopic("a", 2, configs={"retention.ms": "7"})])
        ids = await controller.allocate_producer_ids()
        await controller.this_broker.close()

        controller = await start(tmp_path)
        image = controller.view.image
        assert image.cluster_id == first.cluster_id
        assert image.brokers[1].broker_epoch > first.brokers[1].broker_epoch
        assert image.controller_epoch > first.controller_epoch
        assert [p.leader_epoch for p in image.topics["a"].partitions] == [1, 1]
        assert image.configs[ResourceType.TOPIC, "a"] == {"retention.ms": "7"}
        more = await controller.allocate_producer_ids()
        assert (ids, more) == (range(1000), range(1000, 2000))
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_subscribers_see_every_change_in_order(tmp_path):
    async def scenario():
        controller = await start(tmp_path)
        versions = []
        controller.view.subscribe(
            lambda old, new, changes: versions.append((old.version, new.version, len(changes)))
        )
        start_version = controller.view.image.version
        await asyncio.gather(*(controller.create_topics([NewTopic(f"t{n}")]) for n in range(5)))
        assert versions == [(start_version + n, start_version + n + 1, 1) for n in range(5)]
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_a_snapshot_s_changes_are_taken_as_they_are_only_where_they_begin_with_the_present_image():
    """Entries may have come while the store compared the two; then they are compared again."""

    class Store:
        async def open(self):
            return EMPTY_IMAGE

        async def follow(self, after_version, deliver, known):
            self.deliver, self.known = deliver, known

    async def scenario():
        store, view, told = Store(), MetadataView(), []
        view.subscribe(lambda old, new, changes: told.append((old.version, list(changes))))
        await DecisionLoop(store, view, None, lambda event: None).open()
        first = store.known()
        assert first is EMPTY_IMAGE
        one, two = ClusterCreated("c"), FeatureLevelChanged(2)
        second = replay(first, 5, [one])
        store.deliver(Snapshot(second, first, [one]))
        assert store.known() is second
        third = replay(second, 9, [two])
        store.deliver(Snapshot(third, first, [one, two]))
        assert store.known() is third
        assert told[1:] == [(0, [one]), (5, [two])]

    asyncio.run(scenario())


def test_clients_that_wait_for_a_store_that_is_away_are_told_so():
    """What the store has goes on waiting; what has not begun is dropped: asked again, it would pile up."""

    class Store:
        appended = None

        async def append_if(self, version, changes, *, controller_epoch=None):
            self.appended = changes
            await back.wait()

    async def scenario():
        store, timers = Store(), ManualTimers(ManualClock())
        status = [StoreStatus("ZooKeeper at zk:2181", True, 0.0, 1.0)]
        loop = DecisionLoop(store, MetadataView(), None, lambda event: None, timers, lambda: status[0])

        def ask(name, **more):
            change = ClusterCreated(name)
            return asyncio.ensure_future(
                loop.decide(lambda image: Decision([change], name), lambda outcome: outcome, **more)
            )

        async def turns():
            for _ in range(20):
                await asyncio.sleep(0)

        first, second = ask("first", for_client=True), ask("second", for_client=True)
        own = ask("own")
        await turns()
        timers.advance(4 * AWAY_MS)
        await turns()
        assert not first.done(), "the store is there, and slow"
        status[0] = StoreStatus("ZooKeeper at zk:2181", False, 26.3, 1.0)
        timers.advance(AWAY_MS)
        assert await first == Outcome(
            ErrorCode.REQUEST_TIMED_OUT,
            "The change waits, and may yet be made: ZooKeeper at zk:2181 is not reached for 26 s",
        )
        assert await second == Outcome(
            ErrorCode.REQUEST_TIMED_OUT,
            "The change was not made: ZooKeeper at zk:2181 is not reached for 26 s",
        )
        assert not own.done(), "this broker's own decisions wait"
        assert store.appended == [ClusterCreated("first")]
        back.set()
        assert await own == "own"
        assert store.appended == [ClusterCreated("own")]

    back = asyncio.Event()
    asyncio.run(scenario())


def test_a_folder_that_kafka_wrote_is_taken_over_once(tmp_path):
    async def scenario():
        found = [FoundTopic("a", b"a" * 16, 3), FoundTopic("__cluster_metadata", b"m" * 16, 1)]
        controller = Controller(1, EmbeddedStore(tmp_path), MetadataView(), from_texts({}), random.Random(5))
        await controller.this_broker.open("MkU3OEVBNTcwNTJENDM2Qk")
        assert await controller.this_broker.adopt_topics(found) == ["a"]
        await controller.this_broker.register(ENDPOINTS)
        image = controller.view.image
        assert image.cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
        assert image.topics["a"].topic_id == b"a" * 16
        assert [p.leader for p in image.topics["a"].partitions] == [1, 1, 1]
        await controller.delete_topics([("a", ZERO_UUID)])
        await controller.this_broker.close()

        controller = await start(tmp_path)
        assert await controller.this_broker.adopt_topics(found) == []
        assert controller.view.image.topics == {}
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_asking_only_whether_it_would_work_changes_nothing(tmp_path):
    async def scenario():
        controller = await start(tmp_path)
        before = controller.view.image
        (result,) = await controller.create_topics([NewTopic("a", 3)], validate_only=True)
        assert (result.outcome.failed, result.num_partitions) == (False, 3)
        (result,) = await controller.create_topics([NewTopic("a", 3, 9)], validate_only=True)
        assert result.outcome.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
        assert controller.view.image is before
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_needed_topics_are_created_once_and_internal_ones_by_their_own_settings(tmp_path):
    async def scenario():
        controller = await start(tmp_path, num_partitions="2")
        both = await asyncio.gather(
            *(controller.auto_create_topics(["a", "__consumer_offsets"]) for _ in range(2))
        )
        codes = [[r.outcome.error_code for r in results] for results in both]
        assert codes == [[ErrorCode.NONE] * 2, [ErrorCode.TOPIC_ALREADY_EXISTS] * 2]
        image = controller.view.image
        assert len(image.topics["a"].partitions) == 2
        offsets = image.topics["__consumer_offsets"]
        assert offsets.internal
        assert len(offsets.partitions) == 50
        assert offsets.partitions[0].replicas == (1,)
        assert image.configs[(ResourceType.TOPIC, "__consumer_offsets")]["cleanup.policy"] == "compact"
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_dynamic_broker_settings_take_effect(tmp_path):
    async def scenario():
        controller = await start(tmp_path)
        asked = [AlterResource(int(ResourceType.BROKER), "", [("message.max.bytes", 0, "77")])]
        await controller.alter_configs(asked)
        assert controller.settings.message_max_bytes == 77
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_the_other_decisions_are_appended_too(tmp_path):
    async def scenario():
        controller = await start(tmp_path)
        await controller.create_topics([NewTopic("a")])
        assert (await controller.create_partitions([MorePartitions("a", 3)]))[0][
            1
        ].error_code is ErrorCode.NONE
        assert len(controller.view.image.topics["a"].partitions) == 3
        _, elected = await controller.elect_leaders(ElectionType.PREFERRED, {"a": [0]})
        assert elected["a"][0][1].error_code is ErrorCode.ELECTION_NOT_NEEDED
        epoch = controller.view.image.brokers[1].broker_epoch
        ((_, outcome, _),) = await controller.alter_partitions(1, epoch, [AlterPartition("a", 0, 0, 0, [1])])
        assert outcome.error_code is ErrorCode.NONE
        (deleted,) = await controller.delete_topics([("a", ZERO_UUID)])
        assert deleted.outcome.error_code is ErrorCode.NONE
        assert controller.view.image.topics == {}
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_a_full_disk_is_an_answer_not_a_crash(tmp_path, monkeypatch):
    async def scenario():
        controller = await start(tmp_path)

        failures = [OSError(28, "No space left on device")]

        def full(descriptor):
            if failures:
                raise failures.pop()

        monkeypatch.setattr(controller._store._files, "sync", full, raising=False)
        (result,) = await controller.create_topics([NewTopic("a")])
        assert result.outcome.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space left" in result.outcome.message
        assert controller.view.image.topics == {}
        failures += [OSError(5, "Input/output error"), OSError(28, "No space left on device")]
        (result,) = await controller.create_topics([NewTopic("a")])
        assert result.outcome.error_code is ErrorCode.REQUEST_TIMED_OUT, "taking it back failed, too"
        assert "may have been made" in result.outcome.message
        (result,) = await controller.create_topics([NewTopic("a")])
        assert result.outcome.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "restart the broker" in result.outcome.message
        with pytest.raises(OSError, match="restart the broker"):
            await controller.allocate_producer_ids()
        assert controller.view.image.topics == {}
        await controller.this_broker.close()

    asyncio.run(scenario())


class Rival(EmbeddedStore):
    """A store in which another broker is faster once."""

    rivals = 1

    async def append_if(self, version, changes, *, controller_epoch=None):
        if version > 2 and self.rivals:
            self.rivals -= 1
            await super().append_if(version, changes)
            raise VersionConflict(version, version + 1)
        return await super().append_if(version, changes, controller_epoch=controller_epoch)


def test_an_overtaken_decision_is_made_again(tmp_path):
    async def scenario():
        controller = await start(tmp_path, store=Rival(tmp_path))
        await controller.create_topics([NewTopic("x")])
        (result,) = await controller.create_topics([NewTopic("a")])
        assert result.outcome.error_code in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE)
        assert set(controller.view.image.topics) == {"a", "x"}
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_a_caller_that_goes_away_does_not_harm_the_store(tmp_path):
    async def scenario():
        controller = await start(tmp_path)
        task = asyncio.ensure_future(controller.create_topics([NewTopic("a")]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (result,) = await controller.create_topics([NewTopic("b")])
        assert not result.outcome.failed
        assert "b" in controller.view.image.topics
        await controller.this_broker.close()

    asyncio.run(scenario())


def test_a_thousand_topics_are_one_append(tmp_path):
    async def scenario():
        controller = await start(tmp_path)
        version = controller.view.image.version
        for batch in range(10):
            await controller.create_topics([NewTopic(f"topic_{batch}.{n}") for n in range(1000)])
        assert controller.view.image.version == version + 10
        started = time.perf_counter()
        await controller.create_topics([NewTopic("one.more")])
        assert time.perf_counter() - started < 1.0
        await controller.this_broker.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("failure", [OutcomeUnknown("the connection was lost"), ValueError("a mistake")])
def test_a_change_that_nobody_waits_for_any_more_ends_with_a_line_in_the_log(tmp_path, caplog, failure):
    """A controlled stop waits for so long, then goes on while ZooKeeper is away; the append fails later."""

    class Hanging(EmbeddedStore):
        answer = None

        async def append_if(self, version, changes, *, controller_epoch=None):
            if self.answer is None:
                return await super().append_if(version, changes, controller_epoch=controller_epoch)
            await self.answer
            raise failure

    async def scenario():
        unretrieved = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
        store = Hanging(tmp_path)
        controller = await start(tmp_path, store=store)
        store.answer = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(controller.create_topics([NewTopic("a")]), 0.01)
        store.answer.set_result(None)
        for _ in range(20):
            await asyncio.sleep(0)
        gc.collect()
        assert unretrieved == []
        await controller.this_broker.close()

    caplog.set_level("INFO", "moldau.controller")
    asyncio.run(scenario())
    (line,) = [one for one in caplog.records if "nobody waits for any more" in one.message]
    assert (line.levelname == "ERROR") == isinstance(failure, ValueError)
