"""Every message in every version: our bytes are Kafka's, and no bytes whatever do us harm.

kio, generated from Kafka's schemas, is the oracle. A failure prints the seed that made the message up;
`protocol_oracle.make(cls, version, seed)` makes it again.
"""

import contextlib
import random
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protocol_oracle import kio_decode, kio_encode, kio_type, make, pair_id, pairs, to_kio

from moldau.common.protocol.frames import parse_request_header
from moldau.common.protocol.wire import MalformedMessage

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)
PAIRS = pairs()
WITH_ORACLE = [pair for pair in PAIRS if kio_type(*pair) is not None]


def quick(examples: int) -> settings:
    """A fixed set of so many examples: the suite must stay within a minute, and be the same each time."""
    checks = [HealthCheck.too_slow, HealthCheck.differing_executors]
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=checks
    )


def decode_or_refuse(cls, data, version):
    """Decode what may be nonsense; any exception but MalformedMessage is a failure."""
    with contextlib.suppress(MalformedMessage):
        cls.decode(data, version)


@pytest.mark.parametrize("pair", WITH_ORACLE, ids=pair_id)
def test_our_bytes_are_the_oracles(pair):
    cls, version = pair
    kio_class = kio_type(cls, version)

    @quick(12)
    @given(seed=SEEDS)
    def check(seed):
        message = make(cls, version, seed)
        theirs = to_kio(message, kio_class)
        data = message.encode(version)
        assert data == kio_encode(theirs)
        assert kio_decode(kio_class, data) == theirs
        assert cls.decode(data, version) == message
        assert cls.decode(memoryview(b"front" + data), version, 5) == message

    check()


@pytest.mark.parametrize("pair", WITH_ORACLE, ids=pair_id)
def test_a_default_message_has_the_oracles_bytes(pair):
    cls, version = pair
    message = cls()
    assert message.encode(version) == kio_encode(to_kio(message, kio_type(cls, version)))


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in WITH_ORACLE], ids=pair_id)
def test_records_without_an_oracle_round_trip(pair):
    cls, version = pair

    @quick(20)
    @given(seed=SEEDS)
    def check(seed):
        message = make(cls, version, seed)
        assert cls.decode(message.encode(version), version) == message

    check()


@pytest.mark.parametrize("pair", PAIRS, ids=pair_id)
def test_a_message_cut_short_anywhere_is_malformed(pair):
    cls, version = pair
    candidates = [make(cls, version, seed, size=2).encode(version) for seed in range(3, 9)]
    data = min(candidates, key=lambda candidate: abs(len(candidate) - 150))
    for length in range(len(data)):
        with pytest.raises(MalformedMessage):
            cls.decode(data[:length], version)
    if hasattr(cls, "RESPONSE"):
        # What follows a request is ignored, as Kafka does: librdkafka sends such requests.
        assert cls.decode(data + b"\0", version) == cls.decode(data, version)
    else:
        with pytest.raises(MalformedMessage):
            cls.decode(data + b"\0", version)


@pytest.mark.parametrize("pair", PAIRS, ids=pair_id)
def test_any_bytes_parse_or_are_malformed(pair):
    cls, version = pair

    @quick(6)
    @given(seed=SEEDS)
    def check(seed):
        pick = random.Random(seed)
        valid = make(cls, version, seed, size=1).encode(version)
        for _ in range(10):
            mutant = bytearray(valid or b"\0")
            for _ in range(pick.randint(1, 4)):
                mutant[pick.randrange(len(mutant))] = pick.choice([0, 1, 127, 128, 255, pick.randrange(256)])
            for data in (bytes(mutant), pick.randbytes(pick.randrange(40))):
                decode_or_refuse(cls, data, version)

    check()


@pytest.mark.parametrize("pair", PAIRS, ids=pair_id)
def test_a_hostile_length_costs_nothing(pair):
    """A huge length or count in the place of any byte: refused, or harmless, and never a large allocation."""
    cls, version = pair
    data = make(cls, version, 7, size=1).encode(version)[:300]
    huge = b"\xff\xff\xff\xff\x07" if cls.is_flexible(version) else b"\x7f\xff\xff\xff"
    decode_or_refuse(cls, data, version)  # compiles the decoder, whose memory is not what is measured
    tracemalloc.start()
    try:
        for offset in range(len(data)):
            decode_or_refuse(cls, data[:offset] + huge + data[offset + len(huge) :], version)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 200_000


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(key=st.integers(0, 95), version=st.integers(-1, 20), rest=st.binary(max_size=40))
def test_any_bytes_are_a_request_header_or_malformed(key, version, rest):
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + rest
    with contextlib.suppress(MalformedMessage):
        assert parse_request_header(frame).body_offset <= len(frame)
