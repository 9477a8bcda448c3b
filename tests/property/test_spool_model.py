"""A spool against a list: random operations; crashes and full disks at every step.

What must hold after a crash, whatever it was: no record that was synced is lost, none is changed, none
appears twice or out of order; of an append either all records are there or none; what an error was returned
for is not there; reading begins between the saved position and the acknowledged one.
"""

import contextlib
import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.kit.spool import Spool, SpoolFull
from moldau.testing.simulated_files import Crash, SimulatedFiles

FOLDER = "/spool"
ID = bytes(range(16))

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 120)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
        st.tuples(st.just("take"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("save"), st.just(0), st.just(0)),
        st.tuples(st.just("close"), st.just(0), st.just(0)),
    ),
    min_size=3,
    max_size=25,
)


class Model:
    """What the caller knows: records it wrote, how many are surely on the disk, what it took."""

    def __init__(self):
        self.records = []  # all that were appended, by number
        self.ends = [0]  # after how many records an append ended
        self.synced = 0
        self.position = 0
        self.saved = 0
        self.count = 0

    def fresh(self, count, size):
        self.count += 1
        return [f"{self.count}.{index}.".encode() + b"x" * size for index in range(count)]

    def wrote(self, records):
        self.records += records
        self.ends.append(len(self.records))

    def take_back(self, to):
        del self.records[to:]
        self.ends = [end for end in self.ends if end <= to]

    def check_after_crash(self, spool, attempted):
        """The spool holds all that was synced, and whole appends of what was written since."""
        assert self.saved <= spool.position <= self.position
        end = spool.next_number
        assert spool.synced_number == end >= self.synced
        wanted = self.records + attempted
        assert end in [*self.ends, len(wanted)]
        assert everything(spool) == wanted[spool.position : end]
        self.records = wanted[:end]
        self.ends = [each for each in self.ends if each < end] + [end]
        self.synced = end
        self.position = self.saved = spool.position


def everything(spool):
    found, at = [], spool.position
    while True:
        first, some = spool.read(at, records_max=3, size_bytes_max=100)
        assert first == at
        if not some:
            return found
        found += some
        at += len(some)


def open_spool(files):
    return Spool.open(FOLDER, files=files, segment_bytes=600, capacity_bytes=4000, spool_id=ID)


def run(spool, model, operation, count, size, attempted):
    """One operation on both; OSErrors of the disk leave both as before, or as the spool's text promises."""
    try:
        if operation == "append":
            records = model.fresh(count, size)
            attempted[:] = records
            number = spool.append(records)
            attempted.clear()
            assert number == len(model.records)
            model.wrote(records)
        elif operation == "sync":
            model.synced = spool.sync()
            assert model.synced == len(model.records)
        elif operation == "take":
            first, some = spool.read(spool.position, records_max=count)
            assert some == model.records[first : first + len(some)]
            assert first + len(some) <= spool.synced_number
            model.position = first + len(some)
            spool.acknowledge(model.position)
        elif operation == "save":
            wanted = spool.position
            try:
                spool.save_position()
            finally:
                model.maybe_saved = wanted
            model.saved = wanted
    except SpoolFull:
        attempted.clear()
    except OSError:
        attempted.clear()
        model.synced = max(model.synced, spool.synced_number)  # a new segment syncs the one before
        if spool.next_number < len(model.records):
            assert spool.next_number == spool.synced_number
            model.take_back(spool.next_number)
    model.synced = max(model.synced, spool.synced_number)


@settings(max_examples=250)
@given(OPERATIONS, st.integers(0, 70), st.booleans(), st.integers(0, 1 << 16), OPERATIONS)
def test_nothing_is_lost_or_doubled_by_a_crash_at_any_step(before, step, power, seed, after):
    files = SimulatedFiles(seed)
    steps = 0

    def fault(operation, path):
        nonlocal steps
        if operation in ("read", "list"):
            return
        steps += 1
        if steps > step:
            raise Crash

    model, attempted = Model(), []
    files.fault = fault
    spool = None
    with contextlib.suppress(Crash):
        spool = open_spool(files)
        for operation, count, size in before:
            run(spool, model, operation, count, size, attempted)
            if operation == "close":
                model.position = spool.position
                spool.close()
                model.synced, model.saved = len(model.records), model.position
                spool = open_spool(files)
                assert spool.position == model.position
                assert everything(spool) == model.records[model.position :]
    files.fault = lambda operation, path: None
    if spool is not None:
        model.synced = max(model.synced, spool.synced_number)
        model.position = max(model.position, spool.position)
    (files.power_cut if power else files.process_kill)()
    spool = open_spool(files)
    model.check_after_crash(spool, attempted)
    attempted.clear()
    for operation, count, size in after:  # it goes on as if nothing had happened
        if operation != "close":
            run(spool, model, operation, count, size, attempted)
    spool.close()
    spool = open_spool(files)
    assert spool.next_number == len(model.records)
    assert everything(spool) == model.records[spool.position :]
    spool.close()


@settings(max_examples=150)
@given(OPERATIONS, st.integers(0, 60), st.integers(1, 4), st.integers(0, 1 << 16))
def test_errors_of_the_disk_are_returned_and_leave_nothing_behind(operations, first, count, seed):
    files = SimulatedFiles(seed)
    spool, model, attempted = open_spool(files), Model(), []
    steps = 0

    def fault(operation, path):
        nonlocal steps
        if operation in ("read", "list", "truncate"):
            return
        steps += 1
        if first < steps <= first + count:
            raise OSError(errno.EIO if operation == "sync" else errno.ENOSPC, "the disk says no", path)

    files.fault = fault
    for operation, number, size in operations:
        if operation != "close":
            run(spool, model, operation, number, size, attempted)
            assert spool.next_number == len(model.records)
    files.fault = lambda operation, path: None
    assert everything(spool) == model.records[spool.position : spool.synced_number]
    spool.append([b"last"])
    model.wrote([b"last"])
    spool.close()
    spool = open_spool(files)
    assert everything(spool) == model.records[spool.position :]
    spool.close()


@settings(max_examples=60)
@given(OPERATIONS, st.integers(300, 2500), st.integers(0, 1 << 16))
def test_a_full_disk_is_an_error_and_room_is_used_when_there_is_some_again(operations, capacity, seed):
    files = SimulatedFiles(seed, capacity_bytes=capacity)
    spool, model, attempted = open_spool(files), Model(), []
    for operation, number, size in operations:
        if operation != "close":
            run(spool, model, operation, number, size, attempted)
    files.capacity_bytes = 1 << 20
    spool.sync()
    assert everything(spool) == model.records[spool.position :]
    spool.close()


@pytest.mark.parametrize("flipped", range(30, 700, 7))
def test_a_changed_bit_of_synced_records_is_refused_or_the_file_is_whole(flipped):
    """After a clean stop the position file says how far the newest segment was synced."""
    files = SimulatedFiles()
    spool = open_spool(files)
    for number in range(12):
        spool.append([f"record {number}".encode() * 3])
        spool.sync()
    spool.close()
    names = sorted(name for name in files.list_directory(FOLDER) if name.endswith(".spool"))
    path = f"{FOLDER}/{names[flipped % len(names)]}"
    bit = flipped * 8 % (files.file_size_bytes(path) * 8)
    files.flip_bit(path, bit)
    with pytest.raises(Exception, match=r"is damaged at byte \d+.*restore the file") as refused:
        open_spool(files)
    assert path in str(refused.value)
    files.flip_bit(path, bit)
    spool = open_spool(files)  # nothing was changed by the refusal
    assert len(everything(spool)) == 12
