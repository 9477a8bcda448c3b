"""Single damages, and what must be done about each beyond what the matrix (test_damage.py) asks of all."""

import errno
import random
import shutil
from pathlib import Path

import pytest
from damage_world import NOW_MS, SETTINGS, VICTIM_ID, Case, append, content, kill, manager_of, start
from test_damage import batches, flip, write

from moldau.broker.log.files.checkpoints import read_offsets
from moldau.broker.log.files.segment import INDEX_SUFFIX, LOG_SUFFIX
from moldau.broker.log.manager import LogManager
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.broker import BrokerSettings
from moldau.testing.simulated_files import SimulatedFiles

OTHER_ID = bytes(reversed(VICTIM_ID))


def told(caplog: pytest.LogCaptureFixture, *words: str) -> bool:
    return any(all(word in record.getMessage() for word in words) for record in caplog.records)


@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_of_another_topic_id_is_set_aside_and_its_offsets_are_not_used_again(
    tmp_path: Path, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    before = sorted(path.name for path in case.partition.iterdir() if path.suffix == LOG_SUFFIX)
    manager, victim, _ = start(case.folder, OTHER_ID)
    assert append(victim) == case.original.end_offset
    (aside,) = case.folder.glob("victim-0.*-stray")
    assert sorted(path.name for path in aside.iterdir() if path.suffix == LOG_SUFFIX) == before
    assert told(caplog, "victim-0", "partition.metadata", "-stray", str(case.original.end_offset))
    manager.close()
    manager, victim, _ = start(case.folder, OTHER_ID)
    assert aside.exists()
    assert victim.log_start_offset == case.original.end_offset
    manager.close()


def test_a_topic_made_again_while_the_broker_runs_begins_at_zero(tmp_path: Path) -> None:
    manager, _, _ = start(Case(tmp_path, clean=True).folder)
    manager.delete_async("victim", 0)
    fresh = manager.create("victim", 0, OTHER_ID, SETTINGS)
    assert fresh.log_end_offset == 0
    manager.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_without_its_folder_goes_on_where_it_was(
    tmp_path: Path, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    shutil.rmtree(case.partition)
    case.check(caplog.records)
    assert told(caplog, "victim-0 has no folder", str(case.original.end_offset))


def test_a_folder_on_its_way_to_be_deleted_says_nothing_of_a_new_topic(tmp_path: Path) -> None:
    case = Case(tmp_path, clean=False)
    case.partition.rename(case.folder / f"victim-0.{'a' * 32}-delete")
    manager, victim, _ = start(case.folder, OTHER_ID)
    assert victim.log_end_offset == 0
    manager.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("place", [1, -1])
def test_the_offsets_of_a_missing_segment_are_not_used_again(
    tmp_path: Path, place: int, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    path = case.files(LOG_SUFFIX)[place]
    for each in case.partition.glob(f"{path.stem}.*"):
        each.unlink()
    case.check(caplog.records)
    assert told(caplog, "victim-0", "lost") or told(caplog, "victim-0", "missing")


def test_a_start_beyond_all_that_is_known_deletes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=True)
    (case.folder / "log-start-offset-checkpoint").write_text("0\n1\nvictim 0 5000000\n")
    manager, victim, _ = start(case.folder)
    assert content(victim)[0] == case.original.victim
    assert told(caplog, "victim-0", "5000000", "ignored")
    manager.close()


@pytest.mark.parametrize("clean", [True, False])
def test_half_a_batch_at_an_old_segments_end_leaves_a_gap_that_readers_pass(
    tmp_path: Path, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=clean)
    path = case.files(LOG_SUFFIX)[0]
    position, batch = batches(path)[-1]
    write(path, lambda data: data[: position + len(batch) // 2])
    manager, victim, _ = start(case.folder)
    lost = int.from_bytes(batch[:8], "big")
    assert content(victim)[0].keys() == case.original.victim.keys() - {lost}
    assert told(caplog, "victim-0", path.name, f"position {position}")
    (kept,) = case.files(".damaged")
    assert batch.startswith(kept.read_bytes())
    assert next(iter(content(victim)[0])) == 0
    data = victim.reader.read(lost, 5000, end_offset=victim.log_end_offset)
    assert int.from_bytes(bytes(data[:8]), "big") > lost
    manager.close()


def test_whole_batches_behind_a_damaged_one_are_kept_and_served(tmp_path: Path) -> None:
    case = Case(tmp_path, clean=True)
    path = case.files(LOG_SUFFIX)[-1]
    position, batch = batches(path)[0]
    write(path, flip(position + 16))
    manager, victim, _ = start(case.folder)
    offset = append(victim, b"acknowledged after the damage")
    kill(manager)
    manager, victim, _ = start(case.folder)
    served = content(victim)[0]
    assert offset in served
    lost = int.from_bytes(batch[:8], "big")
    assert served.keys() - {offset} == case.original.victim.keys() - {lost}
    manager.close()


def test_a_damaged_base_offset_is_put_right_by_its_neighbours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=False)
    path = case.files(LOG_SUFFIX)[-1]
    position, _ = batches(path)[0]
    write(path, flip(position + 1))
    manager, victim, _ = start(case.folder)
    assert content(victim)[0] == case.original.victim
    assert told(caplog, "victim-0", path.name, "put right")
    manager.close()


def test_an_index_that_is_wrong_in_its_middle_costs_no_record(tmp_path: Path) -> None:
    case = Case(tmp_path, clean=True)
    path = case.files(INDEX_SUFFIX)[0]
    count = path.stat().st_size // 8
    assert count >= 3
    write(path, flip(8 * (count // 2) + 6))
    manager, victim, _ = start(case.folder)
    for base, batch in case.original.victim.items():
        data = bytes(victim.reader.read(base, 500, end_offset=victim.log_end_offset))
        assert data.startswith(batch)
    assert content(victim)[0] == case.original.victim
    manager.close()


def test_a_log_that_cannot_be_opened_is_offline_alone_and_looked_at_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, clean=True)
    path = case.files(LOG_SUFFIX)[-1]
    moved = tmp_path / "moved"
    path.rename(moved)
    path.mkdir()
    manager, victim, _ = start(case.folder)
    assert victim.offline
    assert path.name in victim.offline_cause
    assert told(caplog, "victim-0 cannot be opened", path.name)
    manager.close()
    assert not (case.folder / ".kafka_cleanshutdown").exists()
    points = read_offsets(manager.files, str(case.folder / "recovery-point-offset-checkpoint"))
    assert points["victim", 0] == case.original.end_offset
    path.rmdir()
    moved.rename(path)
    manager, victim, _ = start(case.folder)
    assert content(victim)[0] == case.original.victim
    manager.close()
    assert (case.folder / ".kafka_cleanshutdown").exists()


def test_a_log_that_could_not_be_opened_is_deleted_on_the_metadatas_word(tmp_path: Path) -> None:
    case = Case(tmp_path, clean=True)
    path = case.files(LOG_SUFFIX)[-1]
    path.unlink()
    path.mkdir()
    manager, _, _ = start(case.folder)
    assert manager.delete_async("victim", 0)
    assert not case.partition.exists()
    assert manager.create("victim", 0, OTHER_ID, SETTINGS).log_end_offset == 0
    manager.close()


def test_a_partition_in_two_directories_is_offline_and_the_others_are_not(tmp_path: Path) -> None:
    case = Case(tmp_path, clean=True)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copytree(case.partition, other / "victim-0")
    manager = manager_of(case.folder, other)
    manager.startup.load("cluster", 1, lambda topic: SETTINGS)
    victim = manager.create("victim", 0, VICTIM_ID, SETTINGS)
    assert victim.offline
    assert str(other) in victim.offline_cause
    assert str(case.folder) in victim.offline_cause
    witness = manager.get("witness", 0)
    assert witness is not None
    assert content(witness)[0] == case.original.witness
    manager.close()


def test_a_partition_that_may_lie_on_an_offline_disk_is_not_made_anew() -> None:
    clock = ManualClock(NOW_MS)
    files = SimulatedFiles(now_ms=clock.now_ms)

    def manager() -> LogManager:
        made = LogManager(
            BrokerSettings(),
            clock=clock,
            timers=ManualTimers(clock),
            files=files,
            source=random.Random(1),
            paths=["/one", "/two"],
        )
        made.startup.load("cluster", 1, lambda topic: SETTINGS)
        return made

    first = manager()
    homes = {}
    for partition in range(2):
        log = first.create("t", partition, VICTIM_ID, SETTINGS)
        log.leader.append(
            memoryview(build_simple_batch([(b"k", b"v")], NOW_MS)), leader_epoch=0, now_ms=NOW_MS
        )
        log.writer.flush_staged()
        homes[first.open_logs.directory_of(log).path] = partition
    first.close()

    def fault(operation: str, path: str) -> None:
        if path.startswith("/one"):
            raise OSError(errno.EIO, "simulated", path)

    files.fault = fault
    again = manager()
    gone = again.create("t", homes["/one"], VICTIM_ID, SETTINGS)
    assert gone.offline
    assert "/one" in gone.offline_cause
    assert not again.create("t", homes["/two"], VICTIM_ID, SETTINGS).offline
    files.fault = lambda operation, path: None
    again.close()
    healed = manager()
    assert [healed.create("t", index, VICTIM_ID, SETTINGS).log_end_offset for index in range(2)] == [1, 1]
