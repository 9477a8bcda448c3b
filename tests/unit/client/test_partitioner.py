"""murmur2 and the default partitioner against Kafka's published vectors, librdkafka's, and each other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from moldau.client.partitioner import (
    murmur2,
    murmur2_of_keys,
    partition_of_key,
    partitions_of_keys,
    runs_without_keys,
)

# From Kafka's own UtilsTest.testMurmur2, signed as Java prints them.
KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
# From librdkafka's unit tests of the same hash, unsigned.
LIBRDKAFKA = {
    b"kafka": 0xD067CF64,
    b"giberish123456789": 0x8F552B0C,
    b"1234": 0x9FC97B14,
    b"234": 0xE7C009CA,
    b"34": 0x873930DA,
    b"4": 0x5A4B5CA1,
    b"PreAmbleWillBeRemoved,ThePrePartThatIs": 0x78424F1C,
    b"": 0x106E08D9,
}


def columns(keys: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    data = np.frombuffer(b"".join(keys), dtype=np.uint8)
    return data, np.cumsum(lengths) - lengths, lengths


@pytest.mark.parametrize(("key", "expected"), KAFKA.items())
def test_kafkas_vectors(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


@pytest.mark.parametrize(("key", "expected"), LIBRDKAFKA.items())
def test_librdkafkas_vectors(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_columns_are_hashed_as_keys_are() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(50):
        keys = [
            rng.randbytes(rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 36, 700])) for _ in range(rng.randrange(60))
        ]
        assert murmur2_of_keys(*columns(keys)).tolist() == [murmur2(key) for key in keys]
        count = rng.randrange(1, 50)
        expected = [partition_of_key(key, count) for key in keys]
        assert partitions_of_keys(*columns(keys), count).tolist() == expected


def test_records_without_keys_fill_one_batch_after_the_other() -> None:
    sizes = np.full(10, 100, dtype=np.int64)
    assert runs_without_keys(sizes, 3, 250, 1).tolist() == [1, 1, 1, 2, 2, 0, 0, 0, 1, 1]
    assert runs_without_keys(sizes, 3, 100_000, 2).tolist() == [2] * 10
