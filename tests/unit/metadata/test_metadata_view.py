"""The view's subscribers: in order, once for each image, and in step again after a failure."""

import asyncio

from moldau.broker.metadata import changes as ch
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.image import PartitionState
from moldau.broker.metadata.view import RETRY_DELAY_MS, MetadataView
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers


class World:
    """A view whose history a test writes, and a clock that it moves."""

    def __init__(self):
        self.timers = ManualTimers(ManualClock())
        self.view = MetadataView(timers=self.timers)

    def topic(self, name):
        """A new image, with one more topic."""
        change = ch.TopicCreated(name, name.encode() * 16, (PartitionState.fresh((1,)),))
        image = replay(self.view.image, self.view.image.version + 1, [change])
        return self.view.publish(image, [change])


class Subscriber:
    """Notes what it hears, and fails when told to."""

    def __init__(self, failures=0):
        self.failures = failures
        self.heard = []

    def __call__(self, old, new, changes):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no room")
        self.heard.append((old.version, new.version, [change.name for change in changes]))


def test_subscribers_hear_in_order():
    world, order = World(), []
    world.view.subscribe(lambda old, new, changes: order.append("first"))
    world.view.subscribe(lambda old, new, changes: order.append("second"))
    world.topic("a")
    assert order == ["first", "second"]
    assert world.view.behind() == []


def test_one_who_fails_is_shown_and_logged_and_the_others_hear(caplog):
    world, good = World(), Subscriber()
    world.view.subscribe(Subscriber(failures=9), "the partitions")
    world.view.subscribe(good)
    world.topic("a")
    assert good.heard == [(0, 1, ["a"])]
    assert world.view.behind() == [("the partitions", 0, "version 1: RuntimeError: no room")]
    (record,) = caplog.records
    assert "the partitions failed on metadata version 1" in record.getMessage()
    assert "TopicCreated(name='a'" in record.getMessage()
    assert record.exc_info


def test_it_is_told_everything_since_with_the_next_image():
    world, late = World(), Subscriber(failures=2)
    world.view.subscribe(late)
    for name in "abc":
        world.topic(name)
    assert late.heard == [(0, 3, ["a", "b", "c"])]
    assert world.view.behind() == []
    world.topic("d")
    assert late.heard[1:] == [(3, 4, ["d"])]


def test_it_is_tried_again_after_a_while_when_nothing_else_happens(caplog):
    world, late = World(), Subscriber(failures=3)
    world.view.subscribe(late, "late")
    world.topic("a")
    world.timers.advance(RETRY_DELAY_MS - 1)
    assert late.failures == 2
    world.timers.advance(1 + 2 * RETRY_DELAY_MS)
    assert late.heard == [(0, 1, ["a"])]
    assert world.view.behind() == []
    world.timers.advance(10 * RETRY_DELAY_MS)
    assert len(late.heard) == 1
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, "the same failure is logged once, and its end"
    assert messages[1] == "late is in step with metadata version 1 again"


def test_what_fails_later_is_noticed_as_well():
    async def scenario():
        world, heard, futures = World(), [], []

        def slow(old, new, changes):
            heard.append((old.version, new.version))
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        world.view.subscribe(slow, "slow")
        assert world.topic("a") == [futures[0]]
        world.topic("b")
        assert heard == [(0, 1), (1, 2)], "it need not be ready to be told of the next"
        futures[1].set_result(None)
        futures[0].set_exception(OSError("disk"))
        await asyncio.sleep(0)
        assert world.view.behind() == [("slow", 0, "version 1: OSError: disk")]
        world.timers.advance(RETRY_DELAY_MS)
        assert heard[2:] == [(0, 2)], "all since the image that it has brought to an end"
        assert world.view.behind(), "not before it is ready"
        futures[2].set_result(None)
        await asyncio.sleep(0)
        assert world.view.behind() == []
        world.topic("c")
        assert heard[3:] == [(2, 3)]

    asyncio.run(scenario())


def test_one_that_fails_while_an_earlier_image_is_under_way():
    async def scenario():
        world, heard = World(), []
        under_way = asyncio.get_running_loop().create_future()

        def subscriber(old, new, changes):
            heard.append((old.version, new.version))
            if len(heard) == 1:
                return under_way
            if len(heard) == 2:
                raise RuntimeError("no")
            return None

        world.view.subscribe(subscriber, "it")
        world.topic("a")
        world.topic("b")
        under_way.set_result(None)
        await asyncio.sleep(0)
        assert [each.version for each in world.view.behind()] == [0]
        world.timers.advance(RETRY_DELAY_MS)
        assert heard[2:] == [(0, 2)]
        assert world.view.behind() == []

    asyncio.run(scenario())


def test_a_closed_view_calls_nobody():
    world, late = World(), Subscriber(failures=1)
    world.view.subscribe(late)
    world.topic("a")
    world.view.close()
    world.timers.advance(10 * RETRY_DELAY_MS)
    assert late.heard == []


def test_who_subscribes_late_hears_of_what_comes():
    world, late = World(), Subscriber()
    world.topic("a")
    world.view.subscribe(late)
    world.topic("b")
    assert late.heard == [(1, 2, ["b"])]
