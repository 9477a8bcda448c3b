"""A topic is deleted and made again under its name: what the checkpoint files said of the first is not said
of the second, whenever the broker dies.
"""

import logging
from pathlib import Path

import pytest
from damage_world import NOW_MS, SETTINGS, VICTIM_ID, append, content, kill, write_checkpoints

from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.settings.broker import BrokerSettings

OTHER_ID = bytes(reversed(VICTIM_ID))
FOLDERS_GO_MS = SETTINGS.file_delete_delay_ms


def start(folder: Path, topic_id: bytes) -> tuple[LogManager, Log, ManualTimers]:
    clock = ManualClock(NOW_MS)
    timers = ManualTimers(clock)
    manager = LogManager(BrokerSettings(), clock=clock, timers=timers, paths=[str(folder)])
    manager.startup.load("cluster", 1, lambda topic: SETTINGS)
    log = manager.create("t", 0, topic_id, SETTINGS)
    manager.startup.is_over()
    return manager, log, timers


@pytest.mark.parametrize("records", [10, 60], ids=["shorter", "longer"])
@pytest.mark.parametrize("moment", ["at once", "folder removed", "after another kill", "after a stop"])
def test_nothing_is_believed_of_the_topic_before(
    tmp_path: Path, moment: str, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    manager, log, timers = start(tmp_path, VICTIM_ID)
    for _ in range(50):
        append(log)
    manager.syncing.sync(log)
    log.increment_log_start_offset(7)
    manager.checkpoints.save_high_watermarks({("t", 0): log.log_end_offset})
    write_checkpoints(manager)
    manager.delete_async("t", 0)
    log = manager.create("t", 0, OTHER_ID, SETTINGS)
    if moment == "folder removed":
        timers.advance(FOLDERS_GO_MS)
        assert not list(tmp_path.glob("*-delete"))
    if moment == "after a stop":
        manager.close()
    if moment == "after another kill":
        kill(manager)
    if moment.startswith("after"):
        manager, log, timers = start(tmp_path, OTHER_ID)
        timers.advance(0)
        assert not list(tmp_path.glob("*-delete"))
    for _ in range(records):
        append(log)
    kill(manager)
    manager, log, _ = start(tmp_path, OTHER_ID)
    assert (log.log_start_offset, log.log_end_offset) == (0, records)
    assert list(content(log)[0]) == list(range(records))
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
    manager.close()


def test_a_deleted_topic_leaves_no_line_behind(tmp_path: Path) -> None:
    manager, log, timers = start(tmp_path, VICTIM_ID)
    for _ in range(50):
        append(log)
    manager.syncing.sync(log)
    manager.checkpoints.save_high_watermarks({("t", 0): log.log_end_offset})
    write_checkpoints(manager)
    manager.delete_async("t", 0)
    timers.advance(FOLDERS_GO_MS)
    kill(manager)
    _, log, _ = start(tmp_path, OTHER_ID)
    assert log.log_end_offset == 0
