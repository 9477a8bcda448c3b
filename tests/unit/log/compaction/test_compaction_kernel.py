"""What only the compiled kernel has: its hash, its limits on offsets, and that there is one."""

from typing import Any

import pytest

from moldau.broker.log.compaction import kernel
from moldau.broker.log.compaction.offset_map import LATEST

pytestmark = pytest.mark.skipif(kernel.compiled is None, reason="the compiled kernel is not installed")
compiled: Any = kernel.compiled
SECRET = bytes(range(16))
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    9: "264499060ad9baabc47f8b02bb6d71ed",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    63: "5150d1772f50834a503e069a973fbd7c",
}
"""Made with `openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:16 SIPHASH`, of so many
bytes 0, 1, 2 and so on.
"""


@pytest.mark.parametrize("size", VECTORS)
def test_keys_are_hashed_by_siphash_2_4(size: int) -> None:
    assert compiled.siphash(SECRET, bytes(range(size))).hex() == VECTORS[size]


def test_each_map_has_a_secret_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = []

    def note(size: int) -> bytes:
        secrets.append(size)
        return SECRET

    monkeypatch.setattr(kernel.os, "urandom", note)
    for _ in range(2):
        kernel.make_compiled_map(0, 100, 10_000, 0.9)
    assert secrets == [16, 16]


def test_an_offset_further_than_a_slot_can_say_ends_the_round() -> None:
    keys = kernel.make_compiled_map(7, 2**40, 10_000, 0.9)
    furthest = 7 + 2**32 - 2
    assert keys.put(b"a", furthest, LATEST)
    assert not keys.put(b"b", furthest + 1, LATEST)
    assert not keys.put(b"a", 2**40, LATEST)
    assert (keys.get(b"a"), keys.key_count) == (furthest, 1)


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 0, 1, 1, 0, SECRET),
        (0, 1, 0, 1, 0, SECRET),
        (0, 1, 1, 0, 0, SECRET),
        (0, 1, 1, 1, -1, SECRET),
        (0, 1 << 40, 1, 1, 0, SECRET),
        (0, 1, 1, 1, 0, b"short"),
    ],
)
def test_a_map_of_impossible_size_is_refused(sizes: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="sizes"):
        compiled.OffsetMap(*sizes)


def test_more_memory_than_there_is_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        compiled.OffsetMap(0, 1, 1, 1, 1 << 60, SECRET)


def test_calls_with_what_cannot_be_are_refused() -> None:
    keys = kernel.make_compiled_map(10, 20, 10_000, 0.9)
    with pytest.raises(ValueError, match="below the map"):
        keys.put(b"a", 9, LATEST)
    for place in ((-1, 3), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="outside the payload"):
            compiled.keep_records(b"abc", *place, b"", None)
    for base_offset, last_delta in ((-1, 0), (0, -1), (2**63 - 1, 1)):
        with pytest.raises(ValueError, match="offsets that cannot be"):
            compiled.OffsetMap.map_keys(keys, b"", 0, 0, 0, base_offset, last_delta, 0)
    for base_offset, last_delta in ((9, 0), (10, 3), (13, 0)):
        with pytest.raises(ValueError, match="outside the window"):
            compiled.verdicts_by_offset(bytes(3), 10, b"", 0, 0, 0, base_offset, last_delta)
