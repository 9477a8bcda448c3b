"""What a broker finds at its start, compared with what the cluster takes its replicas for."""

import random
from collections.abc import Callable

import pytest

from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, TopicState
from moldau.broker.replication.losses import Losses, find_losses
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.timers import ManualTimers
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

TOPIC_ID = b"a" * 16
SETTINGS = TopicSettings()
OF_THREE = PartitionState(2, 5, 7, (1, 2, 3), (1, 2, 3))
LAST = PartitionState(1, 5, 7, (1, 2, 3), (1,))
ELIGIBLE = PartitionState(2, 5, 7, (1, 2, 3), (2,), (1,))
OUT_OF_SYNC = PartitionState(2, 5, 7, (1, 2, 3), (2, 3))
ALONE = PartitionState(1, 5, 7, (1,), (1,))
ELSEWHERE = PartitionState(2, 5, 7, (2, 3), (2, 3))


class Machine:
    """Broker 1's disks, and its lives one after the other. Partition 0 is that of the test."""

    def __init__(self, state: PartitionState) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(now_ms=self.clock.now_ms)
        self.paths = ["/disk-1", "/disk-2"]
        self.state = state
        self.directories: tuple[str, ...] = ()
        self.offline: tuple[int, ...] = ()
        self.random = random.Random(1)

    @property
    def image(self) -> Image:
        offline = {TOPIC_ID: self.offline} if self.offline else {}
        broker = BrokerState(1, 5, {}, offline=offline, directories=self.directories)
        topics = {"a": TopicState("a", TOPIC_ID, (self.state,))}
        return Image(version=5, level=2, brokers={1: broker, 2: BrokerState(2, 6, {})}, topics=topics)

    def start(self) -> LogManager:
        manager = LogManager(
            BrokerSettings(),
            clock=self.clock,
            timers=ManualTimers(self.clock),
            files=self.files,
            source=self.random,
            paths=self.paths,
        )
        image = self.image
        manager.startup.load(
            "cluster", 1, lambda topic: SETTINGS, lambda t, index: image.is_sole_copy(t, index, 1)
        )
        return manager

    def live(self) -> Log:
        """A first life: the partition with three records, and a stop in order."""
        manager = self.start()
        manager.startup.is_over()
        log = manager.create("a", 0, TOPIC_ID, SETTINGS)
        for _ in range(3):
            batch = build_simple_batch([(b"key", b"value" * 10)], self.clock.now_ms())
            log.leader.append(memoryview(batch), leader_epoch=0, now_ms=self.clock.now_ms())
            log.writer.flush_staged()
        self.directories = tuple(manager.directories.ids)
        manager.close(broker_epoch=5)
        return log

    def find(self) -> tuple[Losses, LogManager]:
        manager = self.start()
        return all_steps(find_losses(self.image, 1, manager)), manager


def told(losses: Losses) -> str:
    if losses.withheld:
        assert losses.withheld == losses.offline
        return "withheld"
    assert not (losses.lost and losses.offline)
    return "lost" if losses.lost else "offline" if losses.offline else "nothing"


def folder_goes(machine: Machine, log: Log) -> None:
    machine.files.remove_tree(log.directory)


def end_goes(machine: Machine, log: Log) -> None:
    path = f"{log.directory}/{0:020d}.log"
    fd = machine.files.open(path)
    machine.files.truncate(fd, 150)
    machine.files.close(fd)


def disk_is_replaced(machine: Machine, log: Log) -> None:
    path = log.directory.rsplit("/", 1)[0]
    machine.files.remove_tree(path)


def disk_is_taken_out(machine: Machine, log: Log) -> None:
    path = log.directory.rsplit("/", 1)[0]
    machine.files.remove_tree(path)
    machine.paths.remove(path)


def disk_fails(machine: Machine, log: Log) -> None:
    path = log.directory.rsplit("/", 1)[0]

    def fault(operation: str, where: str) -> None:
        if where.startswith(path):
            raise OSError(5, "simulated", where)

    machine.files.fault = fault


def nothing_happens(machine: Machine, log: Log) -> None:
    pass


@pytest.mark.parametrize(
    ("what", "of_three", "last", "eligible", "out_of_sync"),
    [
        (nothing_happens, "nothing", "nothing", "nothing", "nothing"),
        (folder_goes, "lost", "withheld", "lost", "nothing"),
        (end_goes, "lost", "nothing", "lost", "lost"),
        (disk_is_replaced, "lost", "withheld", "lost", "nothing"),
        (disk_is_taken_out, "lost", "withheld", "lost", "nothing"),
        (disk_fails, "offline", "offline", "offline", "offline"),
    ],
)
def test_what_is_found(
    what: Callable[[Machine, Log], None], of_three: str, last: str, eligible: str, out_of_sync: str
) -> None:
    """After a stop in order, so that the broker counts as complete. A log that nobody else has whole goes on
    behind what it lost, as a single broker's."""
    expected = {OF_THREE: of_three, LAST: last, ELIGIBLE: eligible, OUT_OF_SYNC: out_of_sync}
    for state, loss in expected.items():
        machine = Machine(state)
        what(machine, machine.live())
        losses, manager = machine.find()
        assert told(losses) == loss, state
        assert manager.directories.complete_epochs == ([] if what in (disk_is_replaced, disk_fails) else [5])
    for state in (ALONE, ELSEWHERE):
        machine = Machine(state)
        what(machine, machine.live())
        assert told(machine.find()[0]) == "nothing"


def test_a_topic_that_was_new_when_the_broker_died_is_made() -> None:
    machine = Machine(LAST)
    machine.start().close(clean=False)
    losses, manager = machine.find()
    assert told(losses) == "nothing"
    assert manager.create("a", 0, TOPIC_ID, SETTINGS, sole_copy=False).log_end_offset == 0


def test_a_withheld_log_is_not_made_and_stays_offline_until_its_folder_is_back() -> None:
    machine = Machine(LAST)
    log = machine.live()
    machine.files.rename(log.directory, "/elsewhere")
    for _ in range(2):
        losses, manager = machine.find()
        assert told(losses) == "withheld"
        machine.offline = (0,)
        manager.startup.missing.withhold(losses.withheld)
        stand_in = manager.create("a", 0, TOPIC_ID, SETTINGS, sole_copy=False)
        assert stand_in.offline
        assert "folder is missing" in str(stand_in.offline_cause)
        assert not machine.files.exists(log.directory)
        manager.startup.is_over()
        manager.close(broker_epoch=6)
    machine.files.rename("/elsewhere", log.directory)
    losses, manager = machine.find()
    assert told(losses) == "nothing"
    assert manager.create("a", 0, TOPIC_ID, SETTINGS, sole_copy=False).log_end_offset == 3


def test_a_lost_log_begins_anew_where_others_have_all_of_it() -> None:
    machine = Machine(OF_THREE)
    folder_goes(machine, machine.live())
    _, manager = machine.find()
    log = manager.create("a", 0, TOPIC_ID, SETTINGS, sole_copy=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0), "the leader has all, from its start on"


def test_a_folder_of_another_topic_id_is_no_replica_of_this_one() -> None:
    machine = Machine(OF_THREE)
    machine.live()
    image = machine.image
    other = image._replace(topics={"a": TopicState("a", b"b" * 16, (OF_THREE,))})
    assert told(all_steps(find_losses(other, 1, machine.start()))) == "lost"
