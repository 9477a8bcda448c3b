"""The map of keys: right against a dict, full when it says so, and true to its memory."""

import random
import tracemalloc

import pytest

from moldau.log.compaction.offset_map import ABSENT, GONE, LATEST, LATEST_TOMBSTONE, OffsetMap


@pytest.mark.parametrize("memory_bytes", [200, 3000, 100_000])
def test_it_is_a_dict_with_a_limit(memory_bytes: int) -> None:
    source = random.Random(memory_bytes)
    keys = OffsetMap(1000, 9000, memory_bytes, 0.9)
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
    keys = OffsetMap(10, 20, 10_000, 0.9)
    for offset, key, verdict in ((10, b"a", LATEST), (11, b"b", LATEST), (13, b"a", LATEST_TOMBSTONE)):
        assert keys.put(key, offset, verdict)
    assert list(keys.window[:4]) == [GONE, LATEST, GONE, LATEST_TOMBSTONE]


def test_keys_of_any_length_and_the_empty_one_differ() -> None:
    keys = OffsetMap(0, 100, 10_000, 0.9)
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
        keys = OffsetMap(0, range_offsets, memory_bytes, 0.9)
        taken_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert keys.memory_bytes <= memory_bytes
    assert peak_bytes <= keys.memory_bytes + 3000
    assert taken_bytes >= keys.memory_bytes
    assert keys.memory_bytes <= 40 * range_offsets + 1000
    assert keys.keys_max >= min(range_offsets, memory_bytes * 0.9 * 0.85 / 24)


def test_however_small_it_has_room_for_a_key() -> None:
    keys = OffsetMap(0, 10, 0, 0.0001)
    assert keys.put(b"a", 0, LATEST)
    assert not keys.put(b"b", 1, LATEST)
    assert keys.put(b"a", 2, LATEST)
    assert keys.get(b"b") == ABSENT
