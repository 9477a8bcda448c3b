"""A worker of a group that is refused something, or is told something by somebody who is no member."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from worker.fakes import Peers, eventually, member

from moldau.services.connect.group.protocol import CONNECTOR
from moldau.services.connect.herder.facade import RestHerder
from moldau.services.connect.herder.interface import HerderProblem, NotLeader
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores import kafka_log
from moldau.services.connect.stores.statuses import WorkerStatus
from moldau.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_a_restart_is_sent_to_members_of_the_group_alone(broker: Broker) -> None:
    peers = Peers()
    one, first = member(broker.bootstrap_servers, "rights", "http://one:1/", peers)
    other, second = member(broker.bootstrap_servers, "rights", "http://other:2/", peers)
    try:
        eventually(lambda: one.membership.is_leader or other.membership.is_leader)
        chief, follower = (one, other) if one.membership.is_leader else (other, one)
        chief_url, follower_url = (
            ("http://one:1", "http://other:2") if chief is one else ("http://other:2", "http://one:1")
        )
        eventually(lambda: not chief.membership.is_rebalancing and not follower.membership.is_rebalancing)
        chief.put_config("c", {"tasks": "2", "tasks.max": "2"}, may_exist=False)
        eventually(lambda: len(first.tasks) == len(second.tasks) == 1)
        theirs = next(each for each in (TaskId("c", 0), TaskId("c", 1)) if each in follower.membership.held())
        ours = TaskId("c", 1 - theirs.task)
        for task in (theirs, ours):  # what anybody who may write to connect-status can say
            forged = WorkerStatus(State.RUNNING, "evil:666", 99)
            chief._stores.put_task_status(task, forged)
        eventually(lambda: {each.worker_id for each in chief.ask.states("c").values()} >= {"evil:666"})

        def asked_for(worker: object, task: TaskId) -> str:
            while True:
                try:
                    worker.restart_task(task)  # type: ignore[attr-defined]
                except NotLeader as elsewhere:
                    return elsewhere.leader_url
                except HerderProblem as problem:
                    if problem.status != 409:  # 409: work is distributed anew
                        raise
                else:
                    return "here"

        assert asked_for(chief, theirs) == follower_url
        assert asked_for(follower, ours) == chief_url
        assert asked_for(follower, theirs) == asked_for(chief, ours) == "here"
        assert TaskId("c", CONNECTOR) in chief.membership.held() | follower.membership.held()
    finally:
        other.close()
        one.close()


def test_settings_that_are_too_long_are_refused_as_such(broker: Broker) -> None:
    worker, runtime = member(broker.bootstrap_servers, "long", "http://one:1/", Peers())
    try:
        eventually(lambda: worker.membership.is_leader and worker.is_started)
        with pytest.raises(HerderProblem, match="make the settings shorter") as refused:
            worker.put_config("c", {"query": "x" * 1_200_000}, may_exist=False)
        assert refused.value.status == 400
        worker.put_config("c", {"tasks": "1"}, may_exist=False)
        eventually(lambda: len(runtime.tasks) == 1)
        assert runtime.listener is not None
        runtime.listener.task_configs("c", [{"part": "x" * 1_200_000}])
        eventually(lambda: worker.ask.states("c")["c"].state is State.FAILED)
        assert "make the settings shorter" in worker.ask.states("c")["c"].trace
    finally:
        worker.close()


def test_a_worker_that_may_not_read_its_configuration_says_so_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_log, "_DENIED_AGAIN_SECONDS", 0.2)
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        denied = AclBinding(
            ResourceType.TOPIC,
            "acl-config",
            ResourcePatternType.LITERAL,
            "User:*",
            "*",
            AclOperation.READ,
            AclPermissionType.DENY,
        )
        allowed = AclBinding(
            ResourceType.TOPIC,
            "acl-config",
            ResourcePatternType.LITERAL,
            "User:*",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        worker, runtime = member(broker.bootstrap_servers, "acl", "http://one:1/", Peers())
        herder = RestHerder(worker, worker._settings, lambda: "")
        try:
            eventually(lambda: worker.membership.is_leader and worker.is_started)
            assert herder.health().status == "healthy"
            for each in admin.create_acls([allowed, denied]).values():
                each.result(30)
            with pytest.raises(HerderProblem, match="acl-config"):
                worker.put_config("c", {"tasks": "1"}, may_exist=False)
            eventually(lambda: herder.health().status == "unhealthy")
            assert "acl-config" in herder.health().message
            filters = [AclBindingFilter(*_all_of(denied))]
            for each in admin.delete_acls(filters).values():
                each.result(30)
            eventually(lambda: herder.health().status == "healthy")
            worker.put_config("d", {"tasks": "1"}, may_exist=False)
            eventually(lambda: TaskId("d", 0) in runtime.tasks)
        finally:
            herder.close()
            worker.close()


def _all_of(acl: AclBinding) -> tuple[object, ...]:
    return (
        acl.restype,
        acl.name,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )
