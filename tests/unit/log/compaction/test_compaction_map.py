"""The map of keys: right against a dict, full when it says so, and true to its memory."""

import random
import tracemalloc

import pytest

from moldau.broker.log.compaction import kernel
from moldau.broker.log.compaction.kernel import KeyMap, choose_kernel
from moldau.broker.log.compaction.offset_map import ABSENT, GONE, LATEST, LATEST_TOMBSTONE

pytestmark = pytest.mark.usefixtures("compaction_kernel")


def make_map(first_offset: int, end_offset: int, memory_bytes: int, load_factor: float) -> KeyMap:
    return choose_kernel().make_map(first_offset, end_offset, memory_bytes, load_factor)


@pytest.mark.parametrize("memory_bytes", [200, 3000, 100_000])
def test_it_is_a_dict_with_a_limit(memory_bytes: int) -> None:
    source = random.Random(memory_bytes)
    keys = make_map(1000, 9000, memory_bytes, 0.9)
    model: dict[bytes, int] = {}
    for offset in range(1000, 9000):
        key = b"%d" % source.randrange(500)
        fits = keys.put(key, offset, LATEST)
        assert fits == (key in model or len(model) < keys.keys_max)
        if fits:
            model[key] = offset
    assert keys.key_count == len(model)
    assert all(keys.get(b"%d" % number) == model.get(b"%d" % number, ABSENT) for number in range(500))
    for offset in range(1000, keys.window_end):
        assert (keys.window[offset - 1000] == LATEST) == (offset in model.values())


def test_the_window_forgets_what_a_later_record_replaces_and_knows_tombstones() -> None:
    keys = make_map(10, 20, 10_000, 0.9)
    for offset, key, verdict in ((10, b"a", LATEST), (11, b"b", LATEST), (13, b"a", LATEST_TOMBSTONE)):
        assert keys.put(key, offset, verdict)
    assert list(keys.window[:4]) == [GONE, LATEST, GONE, LATEST_TOMBSTONE]


def test_keys_of_any_length_and_the_empty_one_differ() -> None:
    keys = make_map(0, 100, 10_000, 0.9)
    names = [b"", b"\0", b"\0\0", b"x" * 10_000, b"x" * 10_001]
    for offset, name in enumerate(names):
        assert keys.put(name, offset, LATEST)
    assert [keys.get(name) for name in names] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("range_offsets", "memory_bytes"), [(10**9, 1 << 22), (1000, 1 << 30), (0, 1000)])
def test_the_memory_is_what_was_allowed_or_what_the_range_needs(
    range_offsets: int, memory_bytes: int
) -> None:
    tracemalloc.start()
    try:
        keys = make_map(0, range_offsets, memory_bytes, 0.9)
        taken_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert keys.memory_bytes <= memory_bytes
    assert peak_bytes <= keys.memory_bytes + 3000
    assert taken_bytes >= keys.memory_bytes
    assert keys.memory_bytes <= 45 * range_offsets + 1000
    room = memory_bytes * 0.85 / 24
    if kernel.kernel_name() == "compiled":
        room = memory_bytes * 0.85 / 20 - kernel.SPARE_SLOTS_MAX
    assert keys.keys_max >= min(range_offsets, room * 0.9)


def test_however_small_it_has_room_for_a_key() -> None:
    keys = make_map(0, 10, 0, 0.0001)
    assert keys.put(b"a", 0, LATEST)
    assert not keys.put(b"b", 1, LATEST)
    assert keys.put(b"a", 2, LATEST)
    assert keys.get(b"b") == ABSENT


@pytest.mark.parametrize("load_factor", [0.5, 0.9, 0.99, 1.0])
def test_a_full_table_finds_every_key(load_factor: float) -> None:
    source = random.Random(5)
    keys = make_map(0, 10**9, 300_000, load_factor)
    names = [source.randbytes(source.randrange(1, 20)) + b"%d" % index for index in range(keys.keys_max)]
    assert all(keys.put(name, offset, LATEST) for offset, name in enumerate(names))
    assert not keys.put(b"one more", len(names), LATEST)
    assert [keys.get(name) for name in names] == list(range(len(names)))
    assert all(keys.get(b"absent %d" % index) == ABSENT for index in range(5000))
    later = {name: len(names) + place for place, name in enumerate(names[::3])}
    assert all(keys.put(name, offset, LATEST) for name, offset in later.items())
    assert [keys.get(name) for name in names] == [later.get(name, place) for place, name in enumerate(names)]
    assert keys.key_count == len(names)


def test_it_takes_no_more_than_kafka_for_as_many_keys() -> None:
    keys = make_map(0, 10_000_000, 128 << 20, 0.9)
    assert keys.memory_bytes <= 128 << 20
    if kernel.kernel_name() == "compiled":
        assert keys.keys_max > int((128 << 20) / 24 * 0.9), "Kafka's of the same size"
