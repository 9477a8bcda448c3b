"""The loops of a job that see every record, compiled where there was a C compiler, else in Python.

A job reads every record of the dirty range once and many of them twice. Python does that at 25 MB a second;
`_kernel.c` at the speed at which memory is reached. Both have one behaviour and the same tests:

    make_map(first_offset, end_offset, memory_bytes, load_factor)     the latest offset of each key
    map_keys, judge_keys, verdicts_by_offset, keep_records            the loops, as scanning.py describes them

`MOLDAU_COMPACTION=python` in the environment chooses the twin where the kernel is there too.

The twin's map is offset_map.py's. The kernel's has slots of 20 bytes (Kafka's: 24) in one table with linear
probing. Behind the home slots lie spare ones, which take what the last home slots push on: as many as there
may be keys, but no more than `SPARE_SLOTS_MAX`, which 2 in 10^5 tables filled up to 0.95 would need, and none
in 10^18 filled up to 0.9 (there the round just ends a little earlier).

Not here: what becomes of a batch (filter.py), batches themselves (source.py, rewrite.py).
"""

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from moldau.broker.log.compaction import scanning
from moldau.broker.log.compaction.offset_map import SLOTS_MIN, WINDOW_SHARE, OffsetMap
from moldau.common.core.kernels import built, ruled_out
from moldau.common.records.batch import Readable

compiled = built("moldau.broker.log.compaction._kernel")  # None: installed where there is no C compiler

ENVIRONMENT = "MOLDAU_COMPACTION"
SPARE_SLOTS_MAX = 8192
LOAD_FACTOR_MAX = 0.95
"""Linear probing takes too long in a fuller table."""
SECRET_BYTES = 16
_HOME_SLOTS_MAX = (1 << 31) - 1


class KeyMap(Protocol):
    """What the maps of kernel and twin have in common; see offset_map.py."""

    @property
    def key_count(self) -> int:
        """How many keys are in the map."""

    @property
    def keys_max(self) -> int:
        """How many it has room for."""

    @property
    def window(self) -> bytearray:
        """One byte an offset, from the map's first on."""

    @property
    def window_end(self) -> int:
        """The first offset that has no byte there."""

    @property
    def memory_bytes(self) -> int:
        """What the map takes at most."""

    def put(self, key: bytes, offset: int, verdict: int, /) -> bool:
        """Note the latest offset of a key; False when there is no room."""

    def get(self, key: bytes, /) -> int:
        """The latest offset of a key, or ABSENT."""


class Kernel(NamedTuple):
    """One set of loops."""

    name: str
    make_map: Callable[[int, int, int, float], KeyMap]
    map_keys: Callable[..., tuple[int | None, int]]
    judge_keys: Callable[..., bytearray]
    verdicts_by_offset: Callable[..., bytearray]
    keep_records: Callable[..., tuple[bytearray, int]]
    as_payload: Callable[[Readable], Readable]
    """Makes of unpacked records what the loops take: Python's are much faster over `bytes`."""


def _as_it_is(payload: Readable) -> Readable:
    return payload


PYTHON = Kernel(
    "python",
    OffsetMap,
    scanning.map_keys,
    scanning.judge_keys,
    scanning.verdicts_by_offset,
    scanning.keep_records,
    bytes,
)


def make_compiled_map(
    first_offset: int, end_offset: int, memory_bytes: int, load_factor: float, secret: bytes | None = None
) -> KeyMap:
    """The kernel's map, as OffsetMap makes the twin's; `secret` (16 bytes) is random unless given."""
    load_factor = min(load_factor, LOAD_FACTOR_MAX)
    range_offsets = max(0, end_offset - first_offset)
    window_bytes = range_offsets
    home_slots = int(range_offsets / load_factor) + SLOTS_MIN + 1
    needed_bytes = (home_slots + _spare_slots(home_slots, load_factor)) * compiled.SLOT_BYTES + window_bytes
    if needed_bytes > memory_bytes:
        window_bytes = min(range_offsets, memory_bytes // WINDOW_SHARE)
        room = (memory_bytes - window_bytes) // compiled.SLOT_BYTES
        home_slots = min(home_slots, max(SLOTS_MIN, room - min(SPARE_SLOTS_MAX, room // 2)))
    home_slots = min(home_slots, _HOME_SLOTS_MAX)
    made: KeyMap = compiled.OffsetMap(
        first_offset,
        home_slots,
        _spare_slots(home_slots, load_factor),
        _keys_max(home_slots, load_factor),
        window_bytes,
        os.urandom(SECRET_BYTES) if secret is None else secret,
    )
    return made


def _keys_max(home_slots: int, load_factor: float) -> int:
    return max(1, min(home_slots - 1, int(home_slots * load_factor)))


def _spare_slots(home_slots: int, load_factor: float) -> int:
    return min(_keys_max(home_slots, load_factor), SPARE_SLOTS_MAX)


def kernel_name() -> str:
    """Which loops a job in this process uses: "compiled" or "python"."""
    forced = ruled_out() or os.environ.get(ENVIRONMENT, "").lower() == "python"
    return "python" if compiled is None or forced else "compiled"


def choose_kernel() -> Kernel:
    """The loops that `kernel_name` says."""
    if kernel_name() == "python":
        return PYTHON
    return Kernel(
        "compiled",
        make_compiled_map,
        compiled.OffsetMap.map_keys,
        compiled.OffsetMap.judge_keys,
        compiled.verdicts_by_offset,
        compiled.keep_records,
        _as_it_is,
    )
