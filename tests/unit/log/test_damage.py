"""Damage to any file of a data directory, after a clean stop and after a crash.

Whatever is damaged: the broker starts, other partitions have all their records, the damaged one serves what
was written to it or is offline with its cause, no acknowledged offset is used again, no aborted record
becomes visible, and what is lost was logged. The matrix is files x harms x stops; what single cases must do
beyond that stands in test_damage_cases.py.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from damage_world import Case, template

from moldau.broker.log.files.segment import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX
from moldau.common.records.batch import iter_batches

CLEAN = pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
FIELDS = {
    "base offset high": 0,
    "base offset": 5,
    "base offset low": 7,
    "length high": 8,
    "length low": 11,
    "leader epoch": 15,
    "leader epoch high": 12,
    "magic": 16,
    "crc": 18,
    "attributes": 22,
    "last offset delta": 26,
    "base timestamp": 30,
    "max timestamp": 40,
    "producer id": 50,
    "producer epoch": 52,
    "base sequence": 56,
    "count": 60,
    "records": 70,
}


def write(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def flip(position: int, bit: int = 4) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]

    return change


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").write_bytes(b"in it")


HARMS: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: write(path, lambda data: b""),
    "truncated": lambda path: write(path, lambda data: data[: len(data) // 2]),
    "without its last byte": lambda path: write(path, lambda data: data[:-1]),
    "zeros": lambda path: write(path, lambda data: bytes(len(data))),
    "noise": lambda path: write(path, lambda data: random.Random(7).randbytes(len(data))),
    "a tail of zeros": lambda path: write(path, lambda data: data + bytes(5000)),
    "a tail of a few zeros": lambda path: write(path, lambda data: data + bytes(7)),
    "a tail of garbage": lambda path: write(path, lambda data: data + random.Random(8).randbytes(500)),
    "a directory": replace_by_directory,
}
PLACES = {"first": 0, "middle": 1, "last": -1}
SUFFIXES = [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, ".txnindex", SNAPSHOT_SUFFIX]
DIRECTORY_FILES = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "aborted-transactions-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
    "meta.properties",
]


@CLEAN
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_a_segment(
    tmp_path: Path, suffix: str, place: str, harm: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    HARMS[harm](case.files(suffix)[PLACES[place]])
    case.check(caplog.records)


@CLEAN
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_file_of_a_partition(
    tmp_path: Path, name: str, harm: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    HARMS[harm](case.partition / name)
    case.check(caplog.records)


@CLEAN
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", DIRECTORY_FILES)
def test_a_file_of_the_directory(
    tmp_path: Path, name: str, harm: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    path = case.folder / name
    if not path.exists():
        path.write_bytes(b"0\n1\nvictim 0 50\n" if name.endswith("checkpoint") else b"")
    HARMS[harm](path)
    case.check(caplog.records)


@CLEAN
@pytest.mark.parametrize("value", ["1000000", "9" * 19, "9" * 40, "0", "3", "-5", "many", "1_0", "٣", ""])
@pytest.mark.parametrize("name", [each for each in DIRECTORY_FILES if each.endswith("checkpoint")])
def test_a_value_in_a_checkpoint(
    tmp_path: Path, name: str, value: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if name == "log-start-offset-checkpoint" and value == "3":
        return  # Deleted records look just like that.
    case = Case(tmp_path, clean=clean)
    (case.folder / name).write_text(f"0\n2\nvictim 0 {value}\nwitness 0 0\n")
    case.check(caplog.records)


@CLEAN
@pytest.mark.parametrize(
    "value", ["0 0\n1 1000000", "7 0\n8 50", "0 -5\n1 60", "x 0\n1 60", "1 0\n0 60", "0 50"]
)
def test_a_value_in_the_leader_epochs(
    tmp_path: Path, value: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    lines = value.split("\n")
    (case.partition / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n{value}\n")
    case.check(caplog.records)


def batches(path: Path) -> list[tuple[int, bytes]]:
    """(position, bytes) of each batch in a segment's file."""
    found, position = [], 0
    for view in iter_batches(path.read_bytes()):
        found.append((position, bytes(view.data)))
        position += len(view.data)
    return found


@CLEAN
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("batch", [1, -1])
@pytest.mark.parametrize("place", PLACES)
def test_a_flipped_bit_in_a_batch(
    tmp_path: Path, place: str, batch: int, field: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    path = case.files(LOG_SUFFIX)[PLACES[place]]
    position, before = batches(path)[batch]
    write(path, flip(position + FIELDS[field]))
    case.check(caplog.records, unnoticed=frozenset([flip(FIELDS[field])(before)]))


@CLEAN
@pytest.mark.parametrize("seed", range(40))
def test_random_damage(tmp_path: Path, seed: int, clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A few flipped bits in one file, whichever it is; the seed is in the test's name."""
    case = Case(tmp_path, clean=clean)
    source = random.Random(seed)
    places = [each for each in sorted(case.folder.rglob("*")) if each.is_file() and each.stat().st_size]
    path = source.choice([each for each in places if each.parent.name != "witness-0"])
    if path.name == "meta.properties":
        return  # It says whose directory this is; a broker must not guess.
    for _ in range(source.randint(1, 4)):
        write(path, flip(source.randrange(path.stat().st_size), source.randrange(8)))
    unnoticed: set[bytes] = set()
    if path.suffix == LOG_SUFFIX:
        data = path.read_bytes()
        whole = batches(template(clean)[0] / "victim-0" / path.name)
        unnoticed = {data[at : at + len(one)] for at, one in whole} - {one for _, one in whole}
    case.check(caplog.records, unnoticed=frozenset(unnoticed))
