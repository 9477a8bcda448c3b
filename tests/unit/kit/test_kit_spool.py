"""A spool that is killed between two files; room that comes back; a shortened file; syncs that overlap.

What random operations do to it: tests/property/test_spool_model.py.
"""

import errno
import os
import threading

import pytest

from moldau.common.core.files import OsFiles
from moldau.kit.spool import Spool, SpoolDamaged, SpoolError, SpoolFull

BIG = b"x" * 3000


def test_a_kill_after_a_segment_is_begun_behind_acknowledged_records(tmp_path):
    spool = Spool.open(tmp_path, segment_bytes=4096)
    spool.append_durably([BIG, BIG])
    spool.acknowledge(2)
    spool.save_position()
    spool.append_durably([b"after"])  # in a new file; the saved position knows the old one only
    spool.abandon()
    for _ in range(2):  # killed again before it has saved anything
        spool = Spool.open(tmp_path, segment_bytes=4096)
        assert spool.read(spool.position) == (2, [b"after"])
        spool.abandon()
    spool = Spool.open(tmp_path, segment_bytes=4096)
    spool.acknowledge(3)
    spool.save_position()
    assert len(list(tmp_path.glob("*.spool"))) == 1
    spool.close()


def test_a_spool_whose_records_are_all_taken_has_all_its_room(tmp_path):
    saved = []
    with Spool.open(tmp_path, segment_bytes=4096, capacity_bytes=10_000) as spool:
        spool.before_removal = lambda: saved.append(spool.position)
        spool.append([b"x" * 4000])
        with pytest.raises(SpoolFull):
            spool.append([b"y" * 9000])
        spool.sync()
        spool.acknowledge(1)
        assert spool.append([b"y" * 9000]) == 1
        assert saved == [1]
        with pytest.raises(SpoolError, match="never fit: raise the capacity") as refused:
            spool.append([b"z" * 10_000])
        assert not isinstance(refused.value, SpoolFull)  # waiting would not help
        spool.sync()
        assert spool.read(1) == (1, [b"y" * 9000])


def test_a_file_that_was_shortened_while_it_was_open_is_damage(tmp_path):
    with Spool.open(tmp_path) as spool:
        spool.append_durably([BIG])
        (path,) = tmp_path.glob("*.spool")
        os.truncate(path, 1000)
        with pytest.raises(SpoolDamaged):
            spool.read(0)


class SlowSync(OsFiles):
    """Syncs of segments wait until they are told how they end."""

    def __init__(self):
        self.armed = False
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.fails = False
        self.overlaps = 0
        self._running = 0

    def sync(self, fd):  # type: ignore[override]
        self.overlaps = max(self.overlaps, self._running)
        if not self.armed:
            return
        self.armed, self._running = False, 1
        self.begun.set()
        assert self.may_end.wait(60)
        self._running = 0
        if self.fails:
            raise OSError(errno.EIO, "the disk says no")


@pytest.mark.parametrize("fails", [False, True])
def test_no_segment_is_begun_while_one_is_synced(tmp_path, fails):
    files = SlowSync()
    spool = Spool.open(tmp_path, files=files, segment_bytes=4096)
    spool.append([BIG, BIG])
    files.armed, files.fails = True, fails
    outcome = []

    def sync():
        try:
            outcome.append(spool.sync())
        except OSError as problem:
            outcome.append(problem.errno)

    numbers = []
    syncing = threading.Thread(target=sync)
    syncing.start()
    assert files.begun.wait(60)
    appending = threading.Thread(target=lambda: numbers.append(spool.append_durably([b"next"])))
    appending.start()
    files.may_end.set()
    syncing.join(60)
    appending.join(60)
    assert files.overlaps == 0
    assert outcome == [errno.EIO if fails else 2]
    assert numbers == [0 if fails else 2]  # what was taken back gives its numbers back
    assert spool.synced_number == spool.next_number == numbers[0] + 1
    spool.close()
