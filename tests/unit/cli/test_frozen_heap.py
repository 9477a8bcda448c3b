"""When a broker's partitions are frozen, and when all is looked at once more."""

from moldau.tools.commands.serve.frozen_heap import FULL_AFTER, THRESHOLD_MAX, FrozenHeap


class FakeCollector:
    """Keeps what it was asked for."""

    def __init__(self):
        self.calls = []
        self.threshold = (700, 10, 10)

    def get_threshold(self):
        return self.threshold

    def set_threshold(self, *threshold):
        self.threshold = threshold

    def freeze(self):
        self.calls.append("freeze")

    def unfreeze(self):
        self.calls.append("unfreeze")

    def collect(self, generation=2):
        self.calls.append(f"collect {generation}")


def heap_of(count):
    partitions, collector = [count], FakeCollector()
    heap = FrozenHeap(lambda: partitions[0], collector)
    heap.begin()
    assert collector.calls == ["freeze"]
    assert collector.threshold == (700, 10, 10 * FULL_AFTER)
    collector.calls.clear()

    def look(count, times=1):
        partitions[0] = count
        for _ in range(times):
            heap.look()
        calls, collector.calls = collector.calls, []
        return calls

    return look


def test_full_collections_may_be_paused_when_it_begins():
    collector = FakeCollector()
    collector.threshold = (700, 10, THRESHOLD_MAX)  # as who pauses them sets it
    FrozenHeap(lambda: 0, collector).begin()
    assert collector.threshold == (700, 10, THRESHOLD_MAX)


def test_partitions_are_frozen_once_no_more_come():
    look = heap_of(10)
    assert look(10, 100) == []
    assert look(100, 100) == [], "few"
    for count in range(500, 4500, 500):
        assert look(count, 2) == [], "they still come"
    assert look(4000) == ["collect 1", "freeze"]
    assert look(4000, 1000) == []
    assert look(4100, 1000) == []
    assert look(4200, 3) == ["collect 1", "freeze"]


def test_when_many_have_gone_all_is_looked_at_later():
    look = heap_of(8000)
    assert look(6001, 1000) == [], "less than a quarter"
    assert look(6000, 90) == [], "their logs are still there"
    assert look(6000) == ["unfreeze", "collect 2", "freeze"]
    assert look(6000, 1000) == []


def test_of_few_partitions_nothing_is_looked_at_again():
    look = heap_of(900)
    assert look(0, 1000) == []
    assert look(900, 1000) == [], "as many as were frozen"
