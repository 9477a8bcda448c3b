"""The walk over headers, in both twins: the same results on sound and damaged bytes, and what it promises."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.common.core.kernels import built
from moldau.common.records import headers
from moldau.common.records.batch import LENGTH_OVERHEAD, POSITION
from moldau.common.records.builder import build_simple_batch

TWINS = [pytest.param(headers.fit_in_python, id="python")]
if (compiled := built("moldau.common.records._headers")) is not None:
    TWINS.append(pytest.param(compiled.fit, id="compiled"))

# Of each batch: how many records, the gap before it, by how much the leader epoch rises.
BATCHES = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from((0, 0, 0, 5)), st.sampled_from((0, 0, 1, 3))), max_size=6
)
FIRST, EPOCH = 40, 2
UNCOVERED_BITS = range(8 * 17)


def laid_out(batches: list[tuple[int, int, int]]) -> tuple[bytearray, list[int], int, int]:
    """Their bytes, where each begins and the last ends, the offset behind them, the last leader epoch."""
    data, starts, offset, leader_epoch = bytearray(), [0], FIRST, EPOCH
    for count, gap, later in batches:
        offset, leader_epoch = offset + gap, leader_epoch + later
        batch = bytearray(build_simple_batch([(b"k", b"v" * 20)] * count, 1_000))
        POSITION.pack_into(batch, 0, offset, len(batch) - LENGTH_OVERHEAD, leader_epoch)
        data += batch
        starts.append(len(data))
        offset += count
    return data, starts, offset, leader_epoch


@pytest.mark.parametrize("fit", TWINS)
@given(batches=BATCHES, limit=st.integers(0, 900))
@settings(max_examples=100)
def test_sound_batches_fit_up_to_the_limit(
    fit: headers.Fit, batches: list[tuple[int, int, int]], limit: int
) -> None:
    data, starts, end, epoch_max = laid_out(batches)
    size, next_offset, misfit = fit(data, limit, FIRST, end, EPOCH, epoch_max)
    assert (size, misfit) == (max(start for start in starts if start <= limit), -1)
    if size == len(data):
        assert next_offset == end


@pytest.mark.parametrize("fit", TWINS)
@given(count=st.integers(1, 6), damaged=st.integers(0, 5), bit=st.sampled_from(UNCOVERED_BITS))
@settings(max_examples=300)
def test_a_bit_that_flips_before_the_crc_is_found_where_there_are_no_gaps(
    fit: headers.Fit, count: int, damaged: int, bit: int
) -> None:
    data, starts, end, epoch_max = laid_out([(2, 0, 0)] * count)
    damaged %= count
    data[starts[damaged] + bit // 8] ^= 128 >> bit % 8
    size, _, misfit = fit(data, len(data), FIRST, end, EPOCH, epoch_max)
    assert (size, misfit) != (len(data), -1), "the damage was not seen"
    is_length = 64 <= bit < 96  # if it leads into other records, the crc is wrong
    assert size <= starts[damaged] or is_length, "a damaged batch was let through"
    assert size >= starts[damaged], "what comes before it is sound"


@pytest.mark.parametrize("fit", TWINS)
@given(batches=BATCHES, limit=st.integers(0, 900), seed=st.integers(0, 2**32), flips=st.integers(0, 3))
@settings(max_examples=300)
def test_the_twins_agree(
    fit: headers.Fit, batches: list[tuple[int, int, int]], limit: int, seed: int, flips: int
) -> None:
    data, _, end, epoch_max = laid_out(batches)
    rng = random.Random(seed)
    for _ in range(flips if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    del data[len(data) - rng.choice((0, 0, 7)) :]
    for bounds in ((FIRST, end, EPOCH, epoch_max), (0, 1 << 62, -1, (1 << 31) - 1), (FIRST + 1, end, 3, 3)):
        assert fit(data, limit, *bounds) == headers.fit_in_python(data, limit, *bounds)
