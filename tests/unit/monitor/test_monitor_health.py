"""The verdict: what each probe finds, what it means for readiness, and what is logged of it."""

import logging
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from monitor_world import (
    FakeCertificate,
    FakeDirectory,
    FakeListener,
    FakePartition,
    FakeTls,
    World,
    image_of,
    topic_of,
)

from moldau.broker.metadata.image import NO_LEADER, PartitionState
from moldau.broker.metadata.view import Behind
from moldau.broker.monitor import probes
from moldau.broker.monitor.conditions import CONDITIONS, Condition, Severity
from moldau.broker.monitor.health import Health, Phase, Probe
from moldau.broker.monitor.loop_lag import LoopLag
from moldau.broker.monitor.process import ProcessFacts, read
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers, TimerHandle


@pytest.fixture
def world() -> World:
    return World()


def test_a_sound_broker_is_ok_and_ready(world: World) -> None:
    verdict = world.health.verdict()
    assert (verdict.word, verdict.causes, verdict.unready) == ("ok", (), None)


@pytest.mark.parametrize(("phase", "name"), [(Phase.STARTING, "starting"), (Phase.SHUTTING_DOWN, "stopping")])
def test_a_broker_that_does_not_serve_is_unready_and_says_why(world: World, phase: Phase, name: str) -> None:
    world.health.phase = phase
    verdict = world.health.verdict()
    assert verdict.word == "degraded"
    assert verdict.unready is not None
    assert verdict.unready.name == name


def test_parts_that_do_not_exist_yet_are_left_out(world: World) -> None:
    world.sources.log_manager = world.sources.replicas = world.sources.groups = world.sources.fsyncs = None
    assert world.names() == []
    assert "moldau_health_verdict 0" in world.metrics()


def test_recovery_tells_its_progress(world: World) -> None:
    world.manager.startup.progress.done, world.manager.startup.progress.total = 3, 10
    world.manager.startup.progress.current = "orders-3"
    verdict = world.health.verdict()
    assert [cause.message for cause in verdict.causes] == ["3 of 10 logs are checked, now orders-3"]
    assert verdict.unready is not None
    world.manager.startup.progress.done = 10
    assert world.names() == []


def test_while_the_logs_are_opened_the_broker_is_never_ready(world: World) -> None:
    """Also with 0 of 0 logs counted, and after the last one: listeners refuse connections until it runs."""
    for done, total in ((0, 0), (3, 10), (10, 10)):
        world.manager.startup.progress.done, world.manager.startup.progress.total = done, total
        world.health.phase = Phase.RECOVERY
        assert world.health.verdict().unready is not None, (done, total)
    world.health.phase = Phase.RUNNING
    assert world.health.verdict().unready is None


def test_disks(world: World) -> None:
    world.manager.directories = [
        FakeDirectory("/a", 1000 * 2**20, 49 * 2**20),
        FakeDirectory("/b", 1000 * 2**20, 51 * 2**20),
        FakeDirectory("/gone", -1, -1),
    ]
    probe = probes.disk_nearly_full(lambda: world.manager, lambda: 0.05)
    assert [cause.message for cause in probe()] == ["/a has 4.9 % free (49.0 MiB)"]


def test_one_directory_offline_fails_but_all_offline_is_unready(world: World) -> None:
    world.manager.directories = [FakeDirectory("/a"), FakeDirectory("/b")]
    world.manager.offline_dirs = ["/a"]
    assert world.health.verdict().word == "failing"
    assert world.names() == ["log-dir-offline"]
    assert world.health.verdict().unready is None
    world.manager.offline_dirs = ["/a", "/b"]
    assert world.names() == ["all-log-dirs-offline"]
    assert world.health.verdict().unready is not None


def test_a_full_disk_fails_but_reads_go_on(world: World) -> None:
    world.manager.full_dirs = ["/a"]
    assert world.names() == ["log-dir-full"]
    assert world.health.verdict().unready is None


def test_partitions_without_leader_or_replicas(world: World) -> None:
    lost = PartitionState(NO_LEADER, 0, 0, (1, 2), ())
    world.image = image_of(topic_of("a", lost, lost, lost, lost, lost), topic_of("b"))
    messages = {cause.name: cause.message for cause in world.health.verdict().causes}
    since = "since 2023-11-14 22:13:20 UTC"
    told = f"without a leader: a-0, a-1, a-2 and 2 more, {since}"
    assert messages["offline-partitions"] == f"{told}; no replica is known to have every record"
    assert "under-replicated" in messages
    world.image = image_of(topic_of("b"))
    assert world.names() == []


def test_a_partition_without_leader_names_the_brokers_that_could_lead_it(world: World) -> None:
    in_sync = PartitionState(NO_LEADER, 0, 0, (1, 2, 3), (2,))
    eligible = PartitionState(NO_LEADER, 0, 0, (1, 2, 3), (), (3,))
    world.image = image_of(topic_of("a", in_sync, eligible))
    messages = {cause.name: cause.message for cause in world.health.verdict().causes}
    assert messages["offline-partitions"].endswith("UTC; every record is on broker 2 or 3")


def test_partitions_that_wait_for_the_longest_log_say_for_whom(world: World) -> None:
    waits = PartitionState(NO_LEADER, 0, 0, (1, 2, 3), (), (3,), doubtful=(1, 2))
    world.image = image_of(topic_of("a", waits))
    (message,) = (c.message for c in world.health.verdict().causes if c.name == "offline-partitions")
    assert "the longest log leads once broker" in message
    assert "an unclean election says that it is gone for good" in message


def test_a_topic_that_found_no_room_is_named_until_it_has_some(world: World) -> None:
    world.replicas.unopened = {"late": "no space left on device"}
    (cause,) = world.health.verdict().causes
    assert cause.name == "partitions-unopened"
    assert "late (no space left on device)" in cause.message
    assert "make room" in cause.remedy
    world.replicas.unopened = {}
    assert world.names() == []


def test_a_partition_whose_file_is_damaged_is_named_with_the_place(world: World) -> None:
    world.replicas.all = [FakePartition("a", 0), FakePartition("b", 1)]
    world.replicas.all[1].log.damage = (42, "00.log is damaged at position 7")
    (cause,) = world.health.verdict().causes
    assert cause.name == "partitions-damaged"
    assert cause.message == "cannot be read: b-1 from offset 42 (00.log is damaged at position 7)"


def test_batches_that_no_consumer_can_read_are_named_with_their_offsets(world: World) -> None:
    world.replicas.all = [FakePartition("a", 0), FakePartition("b", 1)]
    world.replicas.all[1].log.unreadable = {42: "no zstd"}
    (cause,) = world.health.verdict().causes
    assert (cause.name, cause.severity) == ("batches-unreadable", Severity.WARN)
    assert cause.message == "no consumer can read: b-1 at offset 42 (no zstd)"


def test_partitions_here_that_are_offline_or_under_min_isr(world: World) -> None:
    world.replicas.all = [FakePartition("a", 0, online=False), FakePartition("b", 1)]
    world.replicas.all[1].log.settings.min_insync_replicas = 2
    assert world.names() == ["offline-partitions"], "all replicas that there are, are enough"
    world.replicas.all[1].replicas = (1, 2)
    assert world.names() == ["offline-partitions", "under-min-isr"]


def test_a_part_that_does_not_follow_the_metadata(world: World) -> None:
    world.metadata_behind = [Behind("partitions", 7, "version 8: OSError: disk")]
    (cause,) = world.health.verdict().causes
    assert (cause.name, cause.message) == (
        "metadata-behind",
        "partitions, at version 7; version 8: OSError: disk",
    )
    world.metadata_behind = []
    assert world.names() == []


def test_an_internal_topic_that_cannot_be_created(world: World) -> None:
    world.uncreated = {"__consumer_offsets": "INVALID_REPLICATION_FACTOR: 1 of 3 brokers"}
    (cause,) = world.health.verdict().causes
    assert cause.name == "internal-topics-missing"
    assert "__consumer_offsets (INVALID_REPLICATION_FACTOR: 1 of 3 brokers)" in cause.message
    assert "offsets.topic.replication.factor" in cause.remedy
    world.image = image_of(topic_of("__consumer_offsets"))
    assert world.names() == [], "another broker has created it"


def test_appends_that_pile_up(world: World) -> None:
    world.replicas.all[0].waiting_count = 5001
    assert world.names() == ["appends-waiting"]


def test_a_slow_fsync_is_remembered_for_a_minute(world: World) -> None:
    world.fsyncs.fsync_count, world.fsyncs.fsync_last_ms = 1, 900.0
    assert world.names() == ["slow-fsync"]
    world.fsyncs.fsync_count, world.fsyncs.fsync_last_ms = 2, 1.0
    world.clock.advance(59_000)
    assert world.names() == ["slow-fsync"]
    world.clock.advance(2_000)
    assert world.names() == []


def test_used_up_memory_of_connections_is_told_with_figures(world: World) -> None:
    world.requests.full = True
    (cause,) = world.monitor.health.verdict().causes
    assert cause.name == "request-memory-full"
    assert cause.message == (
        "512.0 KiB of queued.max.request.bytes=1.0 MiB are in use, 3 requests wait, 2 connections were "
        "closed since the start"
    )
    world.requests.full, world.responses.full = False, True
    (cause,) = world.monitor.health.verdict().causes
    assert cause.name == "response-memory-full"
    assert cause.message.startswith("4 clients left 512.0 KiB of responses unread")


def test_file_descriptors_near_the_limit() -> None:
    def facts(used: int | None) -> ProcessFacts:
        return ProcessFacts(0.0, 0, 0, 0.0, used, 1000)

    assert [cause.name for cause in probes.file_descriptors(lambda: facts(901))()] == ["file-descriptors"]
    assert not list(probes.file_descriptors(lambda: facts(900))())
    assert not list(probes.file_descriptors(lambda: facts(None))())


def test_a_listener_that_is_down_is_named() -> None:
    found = list(probes.listeners_down(lambda: ["PLAINTEXT cannot be opened"])())
    assert [(cause.name, cause.message) for cause in found] == [
        ("listener-down", "PLAINTEXT cannot be opened")
    ]


def test_token_issuers_whose_keys_are_missing_are_named() -> None:
    sources = [
        SimpleNamespace(url="https://a", error="no route"),
        SimpleNamespace(url="https://b", error=None),
    ]
    (found,) = probes.token_keys(lambda: sources)()
    assert (found.name, found.message) == ("token-keys-not-loaded", "https://a: no route")


@pytest.mark.parametrize(
    ("from_days", "until_days", "problem", "names"),
    [
        (-1, 30, None, []),
        (-1, 13, None, ["certificate-expires"]),
        (-30, -1, None, ["certificate-expired"]),
        (1, 30, None, ["certificate-expired"]),
        (-1, 30, "the listener SSL keeps its old certificate", ["certificate-not-renewed"]),
    ],
)
def test_certificates_that_end_are_named(
    from_days: int, until_days: int, problem: str | None, names: list[str]
) -> None:
    clock, day_ms = ManualClock(), 86_400_000
    shown = FakeCertificate(clock.now_ms() + from_days * day_ms, clock.now_ms() + until_days * day_ms)
    listeners = [FakeListener("SSL", tls=FakeTls(shown, problem)), FakeListener("PLAINTEXT")]
    assert [cause.name for cause in probes.certificates(lambda: listeners, clock)()] == names


def test_a_probe_that_fails_is_a_condition_and_the_others_count(world: World) -> None:
    def broken():
        raise KeyError("x")

    world.health.register(broken)
    world.manager.full_dirs = ["/a"]
    assert world.names() == ["log-dir-full", "probe-failed"]


class SkewedClock:
    """A clock whose two faces are set apart by a test."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_ms = 1_000_000, 0.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> float:
        return self.steady_ms


class OneTimer:
    """Timers that keep the last call."""

    def call_later(self, delay_ms, callback):
        self.callback = callback
        return self

    def cancel(self) -> None:
        self.callback = None


def test_a_loop_that_runs_late_and_a_clock_that_jumps() -> None:
    clock, timers = SkewedClock(), OneTimer()
    cpu = iter(index * 0.05 for index in range(1000))
    lag = LoopLag(clock, timers, lambda: next(cpu))
    lag.start()

    def pass_time(steady_ms: float, wall_ms: int) -> None:
        clock.steady_ms += steady_ms
        clock.wall_ms += wall_ms
        timers.callback()

    for _ in range(98):
        pass_time(100, 100)
    assert lag.lag() == (0.0, 0.0, 0.0, 98)
    assert lag.idle_ratio() == pytest.approx(0.5)
    assert not list(probes.event_loop_lag(lag)())
    pass_time(400, 400)
    assert not list(probes.event_loop_lag(lag)())  # too few samples to judge
    pass_time(350, 350)
    assert lag.lag().max_ms == 300.0
    assert lag.lag().p99_ms == 250.0
    assert [cause.name for cause in probes.event_loop_lag(lag)()] == ["event-loop-lag"]

    jumped = probes.clock_jumped_back(lag, clock)
    assert not list(jumped())
    pass_time(100, -7_100)
    assert [cause.message for cause in jumped()] == ["the clock went back by 7.2 s, 0 s ago"]
    clock.steady_ms += 601_000
    assert not list(jumped())


def test_what_begins_and_what_ends_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="moldau.health")
    world.health.watch(world.timers)
    world.manager.full_dirs = ["/data"]
    world.timers.advance(60_000)
    world.manager.full_dirs = []
    world.timers.advance(60_000)
    world.health.stop()
    told = [(record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records]
    assert told == [("ERROR", "log-dir-full"), ("INFO", "log-dir-full")]
    assert caplog.records[1].getMessage() == "log-dir-full: over"


def test_later_checks_run_one_probe_a_turn_and_end_with_a_stop() -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)
    health = Health(clock)
    ran: list[str] = []
    before_each: list[int] = []
    later = timers.call_later

    def call_later(delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        def turn() -> None:
            before_each.append(len(ran))
            callback()

        return later(delay_ms, turn)

    def probe_of(name: str) -> Probe:
        def probe() -> list[Condition]:
            ran.append(name)
            return []

        return probe

    timers.call_later = call_later  # type: ignore[method-assign]
    health.register(*map(probe_of, "abc"))
    health.watch(timers)
    assert ran == ["a", "b", "c"], "the first at once"
    timers.advance(10_000)
    assert ran == ["a", "b", "c"] * 3
    assert before_each == [3, 4, 5, 6, 6, 7, 8, 9], "no turn has run two"
    health.stop()
    timers.advance(20_000)
    assert len(ran) == 9


def test_every_condition_has_a_meaning_and_a_remedy() -> None:
    for name, kind in CONDITIONS.items():
        assert name == name.lower()
        assert kind.meaning.endswith(".")
        assert kind.remedy.endswith(".")


def test_this_process_can_be_read() -> None:
    facts = read()
    assert facts.cpu_seconds > 0
    assert facts.open_descriptors is None or facts.open_descriptors > 2
    assert facts.resident_bytes is None or facts.resident_bytes > 2**20


@pytest.mark.parametrize(("phase", "name"), [(Phase.STARTING, "starting"), (Phase.SHUTTING_DOWN, "stopping")])
def test_a_start_or_a_stop_is_logged_only_when_it_lasts(
    world: World, caplog: pytest.LogCaptureFixture, phase: Phase, name: str
) -> None:
    def told() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    caplog.set_level(logging.INFO, "moldau.health")
    world.health.phase = phase
    for _ in range(6):
        assert [cause.name for cause in world.health.check().causes] == [name], "the page tells it at once"
        world.clock.advance(4_999)
    world.health.phase = Phase.RUNNING
    world.health.check()
    assert told() == [], "neither that it began nor that it is over"
    world.health.phase = phase
    world.health.check()
    world.clock.advance(30_000)
    world.health.check()
    (line,) = told()
    assert line.startswith(f"{name}: the broker is ")
    world.health.phase = Phase.RUNNING
    world.health.check()
    assert told() == [f"{name}: over"]


def test_what_clients_make_the_broker_keep_is_told_near_its_limit_and_for_a_minute(world: World) -> None:
    state = world.client_state
    state.groups.change(899_000)
    assert world.names() == []
    state.groups.change(2_000)
    (cause,) = world.monitor.health.verdict().causes
    assert cause.name == "client-state-full"
    assert "groups (0 closed, 0 refused since the start)" in cause.message
    state.groups.change(-901_000)
    assert world.names() == []
    assert not state.logins.admits(300_000), "more than its share"
    assert world.names() == ["client-state-full"]
    world.clock.advance(61_000)
    assert world.names() == []
