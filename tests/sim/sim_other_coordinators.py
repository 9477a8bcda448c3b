"""A request of every API that a coordinator serves, for brokers that coordinate nothing."""

from __future__ import annotations

from moldau.common.protocol.declare import Message
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.common.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.common.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.common.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.common.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.common.protocol.messages.end_txn import EndTxnRequest
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.common.protocol.messages.sync_group import SyncGroupRequest
from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Request = tuple[Message, int]


def transaction_requests(transactional_id: str) -> list[Request]:
    """With their versions."""
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    return [
        (InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000), 4),
        (
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=1,
                v3_and_below_topics=topics,
            ),
            3,
        ),
        (
            AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id=transactional_id, producer_id=1, topics=topics
                    )
                ]
            ),
            5,
        ),
        (AddOffsetsToTxnRequest(transactional_id=transactional_id, producer_id=1, group_id="g"), 3),
        (EndTxnRequest(transactional_id=transactional_id, producer_id=1, committed=True), 5),
        (DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0),
    ]


def group_requests(group_id: str) -> list[Request]:
    """With their versions."""
    commit = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition()])
    pending = TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition()])
    delete = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition()])
    return [
        (
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range")],
            ),
            5,
        ),
        (SyncGroupRequest(group_id=group_id, member_id="m"), 3),
        (HeartbeatRequest(group_id=group_id, member_id="m"), 3),
        (LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id="m")]), 4),
        (OffsetCommitRequest(group_id=group_id, topics=[commit]), 9),
        (OffsetFetchRequest(group_id=group_id, topics=None), 7),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]), 9),
        (OffsetDeleteRequest(group_id=group_id, topics=[delete]), 0),
        (
            TxnOffsetCommitRequest(
                transactional_id="till", group_id=group_id, producer_id=1, topics=[pending]
            ),
            3,
        ),
        (DescribeGroupsRequest(groups=[group_id]), 5),
        (DeleteGroupsRequest(groups_names=[group_id]), 2),
        (ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="m", subscribed_topic_names=["t"]), 0),
        (ConsumerGroupDescribeRequest(group_ids=[group_id]), 0),
    ]
