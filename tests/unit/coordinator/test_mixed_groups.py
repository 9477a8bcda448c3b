"""Groups in use that change their protocol: the records, refused and failed changes, and what others see of
them.

The courses of conversation are in mixed_transcripts.py.
"""

import logging
from collections.abc import Iterator

import pytest
from mixed_script import MemoryPort, Script

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.group import GroupKind
from moldau.broker.coordinator.records import decode
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from moldau.common.protocol.messages.coordinator_records import ClassicMemberMetadata, ClassicProtocol
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

ALL = "a0123456789ab"


@pytest.fixture
def port() -> Iterator[MemoryPort]:
    port = MemoryPort({"a": 12, "b": 4})
    yield port
    port.close()


@pytest.fixture
def script(port: MemoryPort) -> Script:
    return Script(port)


def kind(port: MemoryPort) -> GroupKind:
    return port.world.shard.groups[port.group_id].kind


def records(port: MemoryPort, since: int) -> list[str]:
    """The records since a place in the log, `-` before a tombstone."""
    shown = []
    for key, value in port.world.log.records[0][since:]:  # type: ignore[misc]
        record = decode(key, value)
        assert record is not None
        name = type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        shown.append(f"{'-' if value is None else ''}{name}")
    return shown


def log_size(port: MemoryPort) -> int:
    return len(port.world.log.records[0])


def form(script: Script) -> None:
    """A stable classic group of one."""
    script.run("A join")
    script.run(f"A sync A={ALL}")


def test_the_records_of_an_upgrade_are_kafkas_in_its_order(port: MemoryPort, script: Script) -> None:
    form(script)
    since = log_size(port)
    script.run("m 0")
    assert records(port, since) == [
        "-GroupMetadata",
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
        # From here on they are the joining member's own.
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    assert port.world.log.batches[-1] == 12  # one batch: all of it survives a crash, or nothing
    key, value = port.world.log.records[0][since + 1]  # type: ignore[misc]
    record = decode(key, value)
    assert record is not None
    group = port.world.shard.groups[port.group_id]
    assert isinstance(group, ConsumerGroup)
    side = group.members[record.key.member_id].classic
    assert side is not None
    expected = ClassicMemberMetadata(
        session_timeout_ms=10_000,
        supported_protocols=[ClassicProtocol(name="range", metadata=side.subscription)],
    )
    assert record.value.classic_member_metadata == expected


def test_the_records_of_a_downgrade_are_kafkas_in_its_order(port: MemoryPort, script: Script) -> None:
    form(script)
    script.run("m 0")
    since = log_size(port)
    script.run("m -1")
    assert records(port, since) == [
        "-CurrentMemberAssignment",
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-TargetAssignmentMember",
        "-TargetAssignmentMetadata",
        "-MemberMetadata",
        "-MemberMetadata",
        "-PartitionMetadata",
        "-Metadata",
        "GroupMetadata",
    ]


def test_an_upgrade_that_cannot_be_written_leaves_the_classic_group(port: MemoryPort, script: Script) -> None:
    form(script)
    port.world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
    assert script.run("m 0") == "COORDINATOR_NOT_AVAILABLE"
    port.world.log.fail = 0
    assert kind(port) is GroupKind.CLASSIC
    assert script.run("A beat") == "ok"
    assert script.run("m 0") == "2 -"
    assert kind(port) is GroupKind.CONSUMER


def test_an_upgrade_that_cannot_be_written_does_not_stop_the_clock_of_the_rebalance(
    port: MemoryPort, script: Script
) -> None:
    script.run("A join session=60000")
    script.run(f"A sync A={ALL}")
    script.run("B join session=60000")
    log = port.world.log
    log.hold = True
    assert script.run("m 0") == "..."
    waited = script.run("wait 21000")  # the rebalance timeout passes while it is no classic group
    assert "m: COORDINATOR_NOT_AVAILABLE" in waited, "it has waited long enough for the commit"
    log.finish(ErrorCode.NOT_ENOUGH_REPLICAS)
    log.hold = False
    assert script.run("wait 1") == "ok; B: REBALANCE_IN_PROGRESS"
    assert script.run("group") == "classic Empty 0 members"  # nobody had joined in time


def test_a_downgrade_that_cannot_be_written_leaves_the_consumer_group(
    port: MemoryPort, script: Script
) -> None:
    form(script)
    script.run("m 0")
    script.run(f"A join has={ALL}")
    script.run("A join has=a012345")
    port.world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
    assert script.run("m -1") == "COORDINATOR_NOT_AVAILABLE"
    port.world.log.fail = 0
    assert kind(port) is GroupKind.CONSUMER
    assert script.run("A sync") == "a012345"
    assert script.run("m 2") == "2 a6789ab"
    script.run("wait 9000")
    assert script.run("A beat") == "ok"
    # The timers are those of before: A was not heard of for 9 s, m since it joined.
    script.run("wait 40000")
    assert script.run("m 2") == "UNKNOWN_MEMBER_ID"


def test_who_waits_while_a_failed_downgrade_is_in_flight_is_answered(
    port: MemoryPort, script: Script
) -> None:
    form(script)
    script.run("B join")
    script.run("A join")
    script.run("A sync A=a012345 B=a6789ab")
    script.run("B sync")
    script.run("m 0")
    log = port.world.log
    log.hold = True
    assert script.run("m -1") == "..."
    assert script.run("A join") == "..."  # parked in a classic group that will never have been
    log.finish(ErrorCode.NOT_ENOUGH_REPLICAS)
    log.hold = False
    assert script.run("wait 1") == "ok; A: COORDINATOR_NOT_AVAILABLE; m: COORDINATOR_NOT_AVAILABLE"
    assert kind(port) is GroupKind.CONSUMER
    assert script.run("A join") == "3"


def test_a_crash_between_the_downgrade_and_its_rebalance_leaves_nothing_unowned(
    port: MemoryPort, script: Script
) -> None:
    form(script)
    script.run("m 0")
    script.run("A join")
    script.run("A sync")
    script.run("m 2")
    assert script.run("m -1") == "-1"
    assert script.run("restart") == "ok"
    # The group is stable as loaded; its member must not be content with the share that it had.
    assert script.run("A beat") == "ILLEGAL_GENERATION"
    assert script.run("A join") == "4 leads A"
    assert script.run(f"A sync A={ALL}") == ALL
    script.run("restart")
    assert script.run("A beat") == "ok"


@pytest.mark.parametrize("moment", ["joining", "assigning"])
def test_a_crash_in_the_rebalance_after_a_downgrade_leaves_nothing_unowned(
    port: MemoryPort, script: Script, moment: str
) -> None:
    form(script)
    script.run("m 0")
    script.run("A join")
    script.run("A sync")
    script.run("m -1")
    if moment == "assigning":
        assert script.run("A join") == "4 leads A"
    script.run("restart")
    if moment == "assigning":
        assert script.run(f"A sync A={ALL}") == "ILLEGAL_GENERATION"
    assert script.run("A join").endswith(" leads A")
    assert script.run(f"A sync A={ALL}") == ALL


def test_a_member_in_the_middle_of_a_rebalance_keeps_what_it_consumes(
    port: MemoryPort, script: Script
) -> None:
    """Kafka goes by the assignment, which is taken back when a rebalance begins anew, and gives the
    partitions of a cooperative member, who still consumes them, to another."""
    form(script)
    script.run("B join")
    assert script.run(f"A join has={ALL}") == "2 leads A,B; B: 2"
    script.run("C join")  # the leader's assignment comes too late
    assert script.run("m 0") == "3 -; C: REBALANCE_IN_PROGRESS"
    group = port.world.shard.groups[port.group_id]
    assert isinstance(group, ConsumerGroup)
    assert group.held_partition_count() == 12
    assert set(group._holders.values()) == {script.speakers["A"].member_id}


def test_a_cooperative_member_that_has_not_heard_yet_keeps_what_it_has_to_give_up(
    port: MemoryPort, script: Script
) -> None:
    form(script)
    script.run("B join")
    script.run(f"A join has={ALL}")
    # The leader withholds what A has to give up; A has not been told yet when the group is upgraded.
    script.run("B sync")
    port.world.log.hold = True
    script.run("A sync A=a012345 B=-")
    assert script.run("m 0") == "..."
    port.world.log.hold = False
    port.world.log.finish()
    script.run("wait 1")
    group = port.world.shard.groups[port.group_id]
    assert isinstance(group, ConsumerGroup)
    assert group.held_partition_count() == 12


def with_user_data(script: Script) -> None:
    """Let leaders leave data with the assignments."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="a", partitions=[0])], user_data=b"mine"
    )
    script._assignment = lambda share: b"\x00\x01" + message.encode(1)  # type: ignore[method-assign]


def test_an_assignors_own_data_forbids_the_upgrade(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    with_user_data(script)
    script.run("A join by=my-assignor")
    script.run("A sync A=a0")
    assert script.run("m 0") == "GROUP_ID_NOT_FOUND"
    assert "its assignor 'my-assignor' keeps data of its own in the assignments" in caplog.text
    assert script.run("A beat") == "ok"


def test_the_note_that_librdkafkas_sticky_assignor_leaves_does_not(port: MemoryPort, script: Script) -> None:
    with_user_data(script)
    script.run("A join by=cooperative-sticky")
    script.run("A sync A=a0")
    assert script.run("m 0").startswith("2 a")
    assert kind(port) is GroupKind.CONSUMER


def test_a_partition_that_a_leader_gave_to_two_members_has_one_owner(
    port: MemoryPort, script: Script
) -> None:
    form(script)
    script.run("B join")
    script.run("A join")
    script.run("A sync A=a01 B=a12")
    script.run("m 0 reads=b")
    group = port.world.shard.groups[port.group_id]
    assert isinstance(group, ConsumerGroup)
    assert group.held_partition_count() >= 3
    assert len(group.members) == 3


def test_each_change_is_one_line_in_the_log(
    port: MemoryPort, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="moldau.coordinator.group")
    form(script)
    script.run("m 0")
    assert "group crew: the classic group becomes a consumer group, with 1 classic members" in caplog.text
    script.run("m -1")
    assert "group crew: the consumer group becomes a classic group, with 1 members" in caplog.text


def test_a_removed_member_comes_back_to_a_group_that_became_classic(script: Script) -> None:
    """Kafka says GROUP_ID_NOT_FOUND, which its clients take for the end."""
    form(script)
    script.run("m 0")
    script.run("A leave for=m")
    assert script.run("m 2") == "UNKNOWN_MEMBER_ID"
    assert script.run("m 0").startswith("3")


def test_a_zombie_that_brings_partitions_along_is_to_forget_them_first(script: Script) -> None:
    script.run("m 0")
    script.run("A join")
    script.run("m 2")
    script.run("m 2 has=a012345")
    script.run("A join")
    assert script.run("A sync") == "a6789ab"
    script.run("wait 11000")  # A is removed, and does not know it
    assert script.run("A join has=a6789ab") == "UNKNOWN_MEMBER_ID"


def test_metrics_count_a_mixed_group_as_a_consumer_group(port: MemoryPort, script: Script) -> None:
    form(script)
    coordinator = port.world.coordinator
    assert coordinator.group_counts() == {("classic", "Stable"): 1}
    script.run("m 0")
    assert coordinator.group_counts() == {("consumer", "Reconciling"): 1}
    assert coordinator.member_count() == 2
    script.run("m -1")
    assert coordinator.group_counts() == {("classic", "PreparingRebalance"): 1}


def test_old_versions_may_commit_as_classic_members_only(script: Script) -> None:
    script.run("m 0")
    script.run("A join")
    assert script.run("A commit a0=1 version=2") == "ok"
    script.speakers["A"].member_id = "m"
    assert script.run("A commit a0=1 version=8") == "UNSUPPORTED_VERSION"


def test_an_old_client_joins_without_asking_for_an_id_first(script: Script) -> None:
    script.run("m 0")
    assert script.run("A join version=2") == "3"
    assert script.run("m 2") == "2 a012345"
    assert script.run("m 2 has=a012345") == "3"
    assert script.run("A join version=2") == "3"
    assert script.run("A sync") == "a6789ab"


def test_a_classic_member_commits_in_transactions_with_its_generation(
    port: MemoryPort, script: Script
) -> None:
    script.run("m 0")
    script.run("A join")
    script.run("m 2")
    script.run("m 2 has=a012345")
    script.run("A join")  # generation 3, with a6789ab since then
    member_id = script.speakers["A"].member_id

    def commit(generation: int, partition: int) -> ErrorCode | None:
        call = port.world.commit_pending(
            5, group="crew", topic="a", partition=partition, member_id=member_id, generation=generation
        )
        return port.world.committed(call)

    assert commit(3, 6) == ErrorCode.NONE
    assert commit(2, 6) == ErrorCode.ILLEGAL_GENERATION
    assert commit(4, 6) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(("name", "error"), [("m", "STALE_MEMBER_EPOCH"), ("A", "ILLEGAL_GENERATION")])
def test_offsets_are_fetched_in_the_members_own_epoch(
    port: MemoryPort, script: Script, name: str, error: str
) -> None:
    script.run("m 0")
    script.run("A join")
    group = port.world.shard.groups[port.group_id]
    member_id = script.speakers["A"].member_id if name == "A" else "m"
    epoch = 3 if name == "A" else 2
    assert group.validate_offset_fetch(member_id, epoch) == ErrorCode.NONE
    assert ErrorCode(group.validate_offset_fetch(member_id, epoch + 1)).name == error


@pytest.mark.parametrize("members", [1, 2])
def test_who_left_during_an_upgrade_that_failed_does_not_stay_for_ever(
    port: MemoryPort, script: Script, members: int
) -> None:
    form(script)
    if members == 2:
        script.run("B join")
        script.run("A join")
        script.run("A sync A=a012345 B=a6789ab")
        script.run("B sync")
    log = port.world.log
    log.hold = True
    script.run("m 0")
    script.run("A leave")  # from the consumer group that will never have been; it does not ask again
    log.finish(ErrorCode.NOT_ENOUGH_REPLICAS)
    log.hold = False
    assert script.run("wait 1") == "ok; A: COORDINATOR_NOT_AVAILABLE; m: COORDINATOR_NOT_AVAILABLE"
    assert script.run("group") == f"classic Stable {members} members"
    for _ in range(3):
        script.run("wait 5000")
        if members == 2:
            script.run("B beat")
    left = "classic PreparingRebalance 1 members" if members == 2 else "classic Empty 0 members"
    assert script.run("group") == left


def test_a_member_that_joins_without_the_protocol_of_the_last_generation_does_not_forbid_the_upgrade(
    port: MemoryPort, script: Script
) -> None:
    script.run("A join by=range+sticky")
    script.run(f"A sync A={ALL}")
    assert script.run("B join by=sticky") == "..."  # the next generation's protocol
    assert script.run("m 0") == "2 -; B: REBALANCE_IN_PROGRESS"
    group = port.world.shard.groups[port.group_id]
    assert isinstance(group, ConsumerGroup)
    assert all(member.topic_names == {"a"} for member in group.members.values())


def test_classic_members_share_what_one_leaves_while_the_static_member_is_away(script: Script) -> None:
    script.run("s 0 as=i1")
    script.run("A join")
    script.run("s 2 as=i1")
    script.run("s 2 as=i1 has=a012345")
    script.run("A join")
    assert script.run("A sync") == "a6789ab"
    script.run("B join")
    script.run("A join has=a6789")
    script.run("s 3 as=i1")
    script.run("s 3 as=i1 has=a0123")
    script.run("B join")
    assert script.run("B sync") == "a45ab"
    assert script.run("A beat") == "ok"
    script.run("s -2 as=i1")
    script.run("B leave")
    assert script.run("A beat") == "REBALANCE_IN_PROGRESS"
    script.run("A join has=a6789")
    assert script.run("A sync") == "a46789a"
    assert script.run("s 0 as=i1 id=t") == "5 a01235b"
    assert script.run("A beat") == "ok"


def test_partitions_that_do_not_exist_are_not_taken_for_possessions(port: MemoryPort, script: Script) -> None:
    """They would be as many as the bytes hold."""
    script.run("A join has=a0123456789abcdef")
    script.run("m 0")
    group = port.world.shard.groups[port.group_id]
    assert isinstance(group, ConsumerGroup)
    assert group.held_partition_count() == 12


@pytest.mark.parametrize("version", [9, 8])
def test_the_static_member_that_ends_the_consumer_group_watches_the_topics(
    port: MemoryPort, script: Script, version: int
) -> None:
    """Nobody else knows that there are new partitions to share."""
    script.run("B join as=i2")
    script.run(f"B sync B={ALL}")
    script.run("s 0 as=i1")
    script.run(f"B join has={ALL}")
    script.run("B join has=a012345")
    script.run("s 2 as=i1")
    joined = script.run(f"C join as=i1 version={version}")
    assert joined == ("2 leads B,C" if version == 9 else "2")  # who cannot be told to skip must not assign
    assert script.run("group") == "classic Stable 2 members"
    assert script.run("C sync C=-") == "a6789ab"  # whatever it sends
    if version == 9:
        script.run("restart")
        assert script.run("C beat") == "ok"
        assert script.run("C join has=a6789ab") == "..."  # its metadata has changed
        assert script.run("group") == "classic PreparingRebalance 2 members"


def test_a_member_whose_end_makes_a_downgrade_that_is_too_large_is_removed_all_the_same(
    port: MemoryPort, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="moldau.coordinator.group")
    form(script)
    script.run("m 0")
    script.run("A join has=a012345")
    script.run("A sync")
    assert script.run("m 2") == "2 a6789ab"
    log = port.world.log
    log.batch_records_max = 9  # all that is less than the downgrade's ten
    assert script.run("m -1") == "UNKNOWN_SERVER_ERROR"
    assert script.run("m -1") == "-1"
    assert "with 1 members its records are larger than __consumer_offsets takes at once" in caplog.text
    assert script.run("group") == "consumer Assigning epoch 3 1 classic 0 consumer"
    assert script.run("A beat") == "REBALANCE_IN_PROGRESS"
    assert script.run("A join has=a012345") == "3"
    assert script.run("A sync") == ALL


def test_a_downgrade_that_failed_for_another_reason_is_tried_again(port: MemoryPort, script: Script) -> None:
    form(script)
    script.run("m 0")
    port.world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
    assert script.run("m -1") == "COORDINATOR_NOT_AVAILABLE"
    port.world.log.fail = 0
    assert script.run("m -1") == "-1"
    assert kind(port) is GroupKind.CLASSIC


def test_an_upgrade_that_is_too_large_is_not_tried_again_before_it_is_smaller(
    port: MemoryPort, script: Script
) -> None:
    form(script)
    script.run("B join")
    script.run("A join")
    script.run("A sync A=a012345 B=a6789ab")
    script.run("B sync")
    log = port.world.log
    log.batch_records_max = 14  # with B's records it is more
    assert script.run("m 0") == "UNKNOWN_SERVER_ERROR"
    batches = len(log.batches)
    assert script.run("m 0") == "GROUP_ID_NOT_FOUND"
    assert len(log.batches) == batches
    assert script.run("A beat") == "ok"
    script.run("B leave")
    script.run("A join")
    script.run(f"A sync A={ALL}")
    assert script.run("m 0") == "4 -"


def test_subscriptions_that_no_batch_holds_are_not_even_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port = MemoryPort({"a": 12}, message_max_bytes=60)
    script = Script(port)
    form(script)
    script.run("B join by=range+sticky")  # three subscriptions of 23 bytes
    read: list[bytes] = []
    monkeypatch.setattr("moldau.broker.coordinator.group.migration.upgrade.read_subscription", read.append)
    assert script.run("m 0") == "GROUP_ID_NOT_FOUND"
    assert not read
    assert "are more than a batch of records takes" in caplog.text
    port.close()


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_a_removed_member_comes_back_to_a_classic_group_that_nobody_is_in_yet(policy: str) -> None:
    """It may join, whatever the policy says; GROUP_ID_NOT_FOUND would end it."""
    port = MemoryPort({"a": 12}, group_consumer_migration_policy=policy)
    script = Script(port)
    script.run("m 0")
    script.run("m -1")
    script.run("A join")
    script.run("restart")  # what was written is that there is a group, not yet of which protocol type
    assert script.run("group") == "classic Empty 0 members"
    assert script.run("m 2") == "UNKNOWN_MEMBER_ID"
    assert script.run("m 0") == f"2 {ALL}"
    port.close()


def test_a_first_join_gets_its_id_before_its_subscription_is_read(port: MemoryPort, script: Script) -> None:
    script.run("m 0")
    request = JoinGroupRequest(
        group_id=port.group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01")],
    )
    port.send("A", request, 9)
    answer = port.answers(["A"])["A"]
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = answer.member_id
    port.send("A", request, 9)
    assert port.answers(["A"])["A"].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
