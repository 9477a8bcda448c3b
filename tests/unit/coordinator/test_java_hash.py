"""The shard of an id, as every Kafka client and broker computes it."""

import pytest

from moldau.broker.coordinator.coordinator import _cached_hash, java_hash


def by_the_book(text: str) -> int:
    """s[0]*31^(n-1) + s[1]*31^(n-2) + ... + s[n-1] over UTF-16 units, in 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@pytest.mark.parametrize(
    ("text", "value"),
    # Known of Java.
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -2147483648)],
)
def test_known_hashes(text: str, value: int) -> None:
    assert by_the_book(text) == value
    assert java_hash(text) == value


@pytest.mark.parametrize("length", [1, 31, 199, 200, 201, 255, 256, 257, 511, 512, 513, 32767])
@pytest.mark.parametrize("letters", ["z", "aé\uffff", "\U0001f600\ud800"])
def test_of_any_length(letters: str, length: int) -> None:
    text = (letters * length)[:length]
    assert java_hash(text) == by_the_book(text)


def test_long_ids_are_not_kept() -> None:
    before = _cached_hash.cache_info().currsize
    java_hash("x" * 30_000)
    assert _cached_hash.cache_info().currsize == before
