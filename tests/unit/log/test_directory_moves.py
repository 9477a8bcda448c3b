"""Logs that move between the directories of a broker: appended to, cut, deleted meanwhile, and stopped at
every step."""

import contextlib
import errno
import heapq
import itertools
import random

import pytest

from moldau.broker.log.files import directory_moves
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.replication.replication_quota import ReplicationQuota
from moldau.common.core.clock import ManualClock
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import Crash, SimulatedFiles

TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings(internal_segment_bytes=1500, index_interval_bytes=150)


class StepTimers:
    """Timers that run one at a time."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.due: list[tuple[float, int, Handle]] = []
        self.order = itertools.count()

    def call_later(self, delay_ms, callback):
        handle = Handle(callback)
        heapq.heappush(self.due, (self.clock.now_ms() + delay_ms, next(self.order), handle))
        return handle

    def step(self, within_ms: float = 1_000) -> bool:
        """Run the next callback, if one is due soon."""
        while self.due and self.due[0][0] <= self.clock.now_ms() + within_ms:
            due_ms, _, handle = heapq.heappop(self.due)
            if handle.callback is not None:
                self.clock.advance(max(0, int(due_ms) - self.clock.now_ms()))
                handle.callback()
                return True
        return False


class Handle:
    def __init__(self, callback) -> None:
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class Storage:
    """A broker's logs in directories /a, /b and /c, over several starts."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(seed, now_ms=self.clock.now_ms)
        self.moved: list[tuple[Log, Log]] = []
        self.appended: list[bytes] = []
        self.start()
        self.manager.create("t", 0, TOPIC_ID, SETTINGS)

    def start(self) -> None:
        self.timers = StepTimers(self.clock)
        self.manager = LogManager(
            BrokerSettings(),
            clock=self.clock,
            timers=self.timers,
            files=self.files,
            source=random.Random(len(self.files._names)),
            paths=("/a", "/b", "/c"),
            descriptor_limit=20,
        )
        self.manager.startup.load("cluster", 1, lambda topic: SETTINGS)
        self.manager.moves.on_moved = lambda current, future: self.moved.append((current, future))
        if self.manager.get("t", 0) is not None:
            self.manager.create("t", 0, TOPIC_ID, SETTINGS)
        self.manager.startup.is_over()

    @property
    def log(self) -> Log:
        found = self.manager.get("t", 0)
        assert found is not None
        return found

    @property
    def home(self) -> str:
        return self.manager.open_logs.directory_of(self.log).path

    def append(self, count: int = 1, leader_epoch: int = 0) -> int:
        code = 0
        for _ in range(count):
            value = b"%d" % len(self.appended) + b"x" * 100
            batch = build_batch(
                [Record(0, self.clock.now_ms(), None, value, ())],
                producer_id=7,
                producer_epoch=0,
                base_sequence=len(self.appended),
            )
            result = self.log.leader.append(memoryview(batch), leader_epoch, self.clock.now_ms())
            if result.error_code:
                code = result.error_code
            else:
                self.log.writer.flush_staged()
                self.appended.append(value)
        return code

    def values(self) -> list[bytes]:
        values, offset = [], self.log.log_start_offset
        while offset < self.log.written_end_offset:
            data = self.log.reader.read(
                offset, 1000, end_offset=self.log.written_end_offset, min_one_batch=True
            )
            for batch in iter_batches(data):
                values += [record.value for record in batch.records() if record.offset >= offset]
                end = batch.next_offset
            offset = end
        return values

    def ask(self, path: str = "/b") -> None:
        directory = self.manager.directories.at(path)
        assert directory is not None
        self.manager.moves.ask(self.log, directory)

    def finish(self) -> None:
        for _ in range(10_000):
            if not len(self.manager.moves) or not self.timers.step():
                return
        raise AssertionError("the move does not end")

    def settle(self) -> None:
        """Until everything is done that is due in some minutes."""
        while self.timers.step(within_ms=300_000):
            pass

    def folders(self) -> list[str]:
        """The partition's folders, without random parts."""
        found = []
        for directory in ("/a", "/b", "/c"):
            for name in self.files.list_directory(directory):
                if name.startswith("t-0"):
                    stem, dot, rest = name.partition(".")
                    found.append(f"{directory}/{stem}{dot}{rest[32:]}")
        return sorted(found)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(directory_moves, "_COPIED_AT_ONCE_BYTES", 700)


def test_a_log_moves_while_it_is_appended_to():
    storage = Storage()
    storage.append(60)
    storage.log.epochs.assign(3, 60)
    storage.ask()
    steps = 0
    while len(storage.manager.moves):
        storage.append(1, leader_epoch=3)
        assert storage.timers.step()
        steps += 1
    assert steps > 10
    assert storage.home == "/b"
    assert storage.values() == storage.appended
    ((old, new),) = storage.moved
    assert (new, old.offline) == (storage.log, True)
    assert new.epochs.entries() == old.epochs.entries()
    assert new.producers.states == old.producers.states
    assert storage.folders() == ["/a/t-0.-delete", "/b/t-0"]
    assert not storage.files.exists("/b/t-0/replica-moved")
    assert storage.append(5, leader_epoch=3) == 0
    storage.settle()
    assert storage.folders() == ["/b/t-0"]
    storage.manager.close()
    storage.start()
    assert (storage.home, storage.values()) == ("/b", storage.appended)


def test_while_the_last_of_it_is_forced_appends_are_refused_with_a_retriable_error():
    storage = Storage()
    storage.append(3)
    later = []
    storage.manager.moves.background = Later(later)
    storage.ask()
    while not later:
        assert storage.timers.step()
    before = len(storage.appended)
    assert storage.append() == ErrorCode.KAFKA_STORAGE_ERROR
    assert storage.log.append_as_follower(memoryview(b""), 0, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert storage.values() == storage.appended
    while later:
        later.pop(0)()
    assert storage.append() == 0
    assert (storage.home, len(storage.appended)) == ("/b", before + 1)


class Later:
    """Background work that is done when the test wants it."""

    def __init__(self, queue) -> None:
        self.queue = queue

    def run(self, work, done) -> None:
        def both() -> None:
            try:
                work()
            except Exception as error:
                done(error)
            else:
                done(None)

        self.queue.append(both)


def test_a_truncation_while_it_is_forced_starts_the_copy_again():
    storage = Storage()
    storage.append(30)
    later = []
    storage.manager.moves.background = Later(later)
    storage.ask()
    while not later:
        assert storage.timers.step()
    storage.log.truncate_to(10)
    del storage.appended[10:]
    while len(storage.manager.moves):
        while later:
            later.pop(0)()
        storage.timers.step()
    assert (storage.home, storage.values()) == ("/b", storage.appended)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_to_the_log_meanwhile(seed):
    storage = Storage(seed)
    chance = random.Random(seed)
    storage.append(chance.randint(0, 60))
    storage.ask()
    epoch = start = 0
    for _ in range(chance.randint(1, 80)):
        choice = chance.random()
        if choice < 0.5:
            storage.timers.step()
        elif choice < 0.8:
            storage.append(chance.randint(1, 4), epoch)
        elif choice < 0.85:
            end = chance.randint(start, len(storage.appended))
            storage.log.truncate_to(end)
            del storage.appended[end:]
            epoch += 1
        elif choice < 0.9:
            start = chance.randint(start, len(storage.appended))
            storage.log.increment_log_start_offset(start)
            storage.log.apply_retention(storage.clock.now_ms(), len(storage.appended))
        elif choice < 0.95:
            storage.ask(chance.choice(["/a", "/b", "/c"]))
        else:
            storage.append(1, epoch + 1)
            epoch += 1
    storage.ask("/c")
    storage.finish()
    assert storage.home == "/c"
    assert storage.log.log_start_offset == start
    assert storage.values() == storage.appended[start:]
    assert storage.log.log_end_offset == len(storage.appended)


def test_the_gap_that_a_crash_has_left_at_the_end_stays():
    storage = Storage()
    storage.append(5)
    storage.log.writer.roll(0)
    storage.log.writer.begin_at(20, 0)
    storage.ask()
    storage.finish()
    assert (storage.home, storage.log.log_end_offset) == ("/b", 20)
    assert len(storage.log.reader.read(0, 10_000, end_offset=20)) > 0


def test_asking_for_its_home_cancels_the_move():
    storage = Storage()
    storage.append(50)
    storage.ask()
    storage.timers.step()
    storage.ask("/a")
    assert storage.folders() == ["/a/t-0", "/b/t-0.-delete"]
    storage.finish()
    assert (storage.home, storage.values()) == ("/a", storage.appended)
    storage.settle()
    assert storage.folders() == ["/a/t-0"]


def test_a_partition_that_is_deleted_takes_its_future_along():
    storage = Storage()
    storage.append(50)
    storage.ask()
    storage.timers.step()
    storage.manager.delete_async("t", 0)
    assert not len(storage.manager.moves)
    storage.settle()
    assert storage.folders() == []


def test_after_a_restart_it_begins_again():
    storage = Storage()
    storage.append(50)
    storage.ask()
    for _ in range(3):
        storage.timers.step()
    storage.manager.close()
    storage.start()
    assert storage.home == "/a"
    storage.finish()
    assert (storage.home, storage.values()) == ("/b", storage.appended)


def test_a_failing_target_leaves_the_log_where_it_is():
    storage = Storage()
    storage.append(50)
    storage.ask()
    storage.timers.step()

    def fault(operation: str, path: str) -> None:
        if path.startswith("/b") and operation == "write":
            raise OSError(errno.EIO, "simulated", path)

    storage.files.fault = fault
    storage.finish()
    assert not len(storage.manager.moves)
    assert (storage.home, storage.append(), storage.values()) == ("/a", 0, storage.appended)
    assert storage.manager.offline_dirs == ["/b"]


def test_a_full_target_ends_the_move_and_no_more():
    storage = Storage()
    storage.append(50)
    storage.ask()

    def fault(operation: str, path: str) -> None:
        if path.startswith("/b") and operation == "write":
            raise OSError(errno.ENOSPC, "simulated", path)

    storage.files.fault = fault
    storage.finish()
    assert (storage.home, storage.append(), storage.manager.offline_dirs) == ("/a", 0, [])


def test_names_that_cannot_be_changed_back_and_forth():
    storage = Storage()
    storage.append(5)
    storage.ask()

    def fault(operation: str, path: str) -> None:
        if path.endswith("-future") and operation == "rename":
            raise OSError(errno.EIO, "simulated", path)

    storage.files.fault = fault
    storage.finish()
    assert (storage.home, storage.append(), storage.values()) == ("/a", 0, storage.appended)


def test_it_keeps_to_the_pace():
    storage = Storage()
    storage.append(100)
    quota = ReplicationQuota(storage.clock.monotonic_ms)
    quota.bytes_per_second = 1_000
    storage.manager.moves.pace = quota
    began_ms = storage.clock.now_ms()
    storage.ask()
    size_bytes = storage.log.size_bytes
    storage.finish()
    assert storage.home == "/b"
    assert (storage.clock.now_ms() - began_ms) / 1_000 >= 0.8 * size_bytes / 1_000


def test_a_topic_whose_name_leaves_no_room_is_refused():
    storage = Storage()
    log = storage.manager.create("n" * 240, 0, TOPIC_ID, SETTINGS)
    directory = storage.manager.directories.at(
        "/a" if storage.manager.open_logs.directory_of(log).path != "/a" else "/b"
    )
    with pytest.raises(directory_moves.NameTooLong):
        storage.manager.moves.ask(log, directory)


def test_what_is_preferred_before_it_is_made():
    storage = Storage()
    directory = storage.manager.directories.at("/c")
    storage.manager.prefer("u", 3, directory)
    log = storage.manager.create("u", 3, TOPIC_ID, SETTINGS)
    assert storage.manager.open_logs.directory_of(log) is directory


def test_a_power_cut_that_leaves_both_names():
    storage = Storage()
    storage.append(20)
    storage.ask()
    removed = []
    storage.files.remove = lambda path, remove=storage.files.remove: (
        removed.append(path) if path.endswith("replica-moved") else remove(path)
    )
    storage.finish()
    del storage.files.remove
    assert removed == ["/b/t-0/replica-moved"]
    (retired,) = [name for name in storage.files.list_directory("/a") if name.startswith("t-0")]
    storage.append(5)
    storage.files.process_kill()
    storage.files.rename(f"/a/{retired}", "/a/t-0")
    storage.start()
    assert (storage.home, storage.values()) == ("/b", storage.appended)
    storage.settle()
    assert storage.folders() == ["/b/t-0"]


def crashed(step: int, seed: int, power_cut: bool) -> tuple[Storage, bool]:
    """A move that is stopped at the change number `step` of the disk; whether that came before its end."""
    storage = Storage(seed)
    storage.append(25)
    if power_cut:
        storage.manager.syncing.sync(storage.log)
    storage.ask()
    left = step

    def fault(operation: str, path: str) -> None:
        nonlocal left
        if operation in ("read", "list"):
            return
        left -= 1
        if left < 0:
            raise Crash

    storage.files.fault = fault
    stopped = False
    with contextlib.suppress(Crash):
        storage.finish()
        stopped = True
    storage.files.fault = lambda operation, path: None
    if power_cut:
        storage.files.power_cut()
    else:
        storage.files.process_kill()
    storage.start()
    return storage, not stopped


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_stop_at_any_step_loses_nothing(power_cut):
    for seed in range(3 if power_cut else 1):
        for step in range(10_000):
            storage, came = crashed(step, seed, power_cut)
            note = f"step {step}, seed {seed}: {storage.folders()}"
            assert storage.values()[:25] == storage.appended, note
            storage.finish()
            assert storage.home == "/b" or step == 0 or power_cut, note
            assert storage.append() == 0, note
            assert storage.values() == storage.appended, note
            storage.settle()
            assert storage.folders() == [f"{storage.home}/t-0"], note
            if not came:
                break
        assert step > 20
