"""A request of very many rows that are all refused, for want of a right or of an authorizer: its rows are one
object, or are made a few at a turn of the loop, and so the audit hears of them."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from acl_world import AclWorld, with_acls
from data_plane_world import on_a_node

from moldau.broker.handlers.parts.administrative import CHANGES, audited
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.node import Node
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.messages import (
    alter_replica_log_dirs,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_producers,
    incremental_alter_configs,
)

ROWS = 3_000
NAMES = [f"t{number}" for number in range(ROWS)]

ACLS = [
    create_acls.CreateAclsRequest(creations=[create_acls.AclCreation()] * ROWS),
    delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter()] * ROWS),
]
OTHERS = [
    create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name=name) for name in NAMES]),
    create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name=name) for name in NAMES]
    ),
    delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name=name) for name in NAMES]),
    delete_groups.DeleteGroupsRequest(groups_names=NAMES),
    delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(
                name="a",
                partitions=[delete_records.DeleteRecordsPartition(partition_index=i) for i in range(ROWS)],
            )
        ]
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name)
            for name in NAMES
        ]
    ),
    describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=name) for name in NAMES]
    ),
    alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            alter_replica_log_dirs.AlterReplicaLogDir(
                path="/d",
                topics=[
                    alter_replica_log_dirs.AlterReplicaLogDirTopic(name=name, partitions=[0])
                    for name in NAMES
                ],
            )
        ]
    ),
]


def context(request: Any) -> RequestContext:
    session = Session("PLAINTEXT", client_host="10.0.0.1", client_id="test")
    session.authenticate("User:mallory", 0)
    return RequestContext(type(request).VERSIONS[1], 1, session)


def rows_of(answer: Any) -> list[Any]:
    rows: list[Any] = getattr(answer, "results", None) or answer.filter_results
    return rows


@pytest.mark.parametrize("secured", [True, False])
def test_rows_about_acls_that_are_all_refused_are_one(tmp_path: Path, secured: bool) -> None:
    async def on_node(node: Node) -> None:
        for request in ACLS:
            rows = rows_of(TABLE[type(request).KEY].handler(node.broker, context(request), request))  # type: ignore[misc]
            assert len(rows) == ROWS
            assert rows[0].error_code in (31, 54)  # CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED
            assert all(row is rows[0] for row in rows)

    async def scene(world: AclWorld) -> None:
        await on_node(world.node)

    if secured:
        with_acls(scene, tmp_path)
    else:
        on_a_node(on_node, tmp_path)


class CountingLane(SlowLane):
    """Slices without a length, counted."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.pauses = 0

    async def wait(self) -> None:
        self.pauses += 1
        await super().wait()


@pytest.mark.parametrize("request_", OTHERS, ids=lambda request: type(request).__name__)
def test_refused_rows_are_made_a_few_at_a_turn_and_so_the_audit_hears_of_them(
    tmp_path: Path, request_: Any
) -> None:
    async def scene(world: AclWorld) -> None:
        broker = world.node.broker
        broker.slow_lane = lane = CountingLane()
        key = type(request_).KEY
        handler = TABLE[key].handler
        assert handler is not None
        serve = audited(handler, key, "Request") if key in CHANGES else handler
        made = serve(broker, context(request_), request_)
        answer = await (made if inspect.isawaitable(made) else lane.slices().run(made))  # type: ignore[arg-type]
        assert type(answer) is type(request_).RESPONSE
        # Rights are asked for, and refusals made, sixteen rows at a turn at most; so are they counted.
        assert lane.pauses >= ROWS // 16 + (ROWS if key in CHANGES else 0)

    with_acls(scene, tmp_path)
