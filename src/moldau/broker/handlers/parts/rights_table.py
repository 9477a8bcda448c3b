"""Which rights each API asks for: the table that handlers follow, and that the tests compare them with.

    operation on a resource    the right, in the words of ACLs (protocol/operations.py)
    of                         which resource of the request is meant
    refused                    the error of who lacks it; LEFT_OUT: the resource is left out of the response
    instead                    rights that will do as well, asked first
    versions                   the request versions that ask for it

Errors stand where the API has them for that resource: in the rows of a topic, or for the whole request. As in
Kafka's broker and its documented table of operations, with one more rule for those that are asked for in
passing: `optional` rights decide about a part of the response only (an authorized-operations field, a topic's
settings), and their lack is no error.

Invariant: a handler asks for the rights of its row and for no others; an API has a row, if an empty one with
a reason.
"""

from collections.abc import Mapping
from typing import NamedTuple

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import Operation, ResourceType

LEFT_OUT = None
_ALL_VERSIONS = (0, 1 << 15)


class Right(NamedTuple):
    """An operation on a type of resource."""

    operation: Operation
    resource_type: ResourceType


class Check(NamedTuple):
    """One right that an API asks for."""

    operation: Operation
    resource_type: ResourceType
    of: str
    refused: ErrorCode | None
    instead: tuple[Right, ...] = ()
    versions: tuple[int, int] = _ALL_VERSIONS
    optional: bool = False

    def holds_for(self, version: int) -> bool:
        """Whether requests of this version ask for it."""
        low, high = self.versions
        return low <= version <= high


class Rights(NamedTuple):
    """An API's row: its checks in the order in which they are made; `why` there are none."""

    checks: tuple[Check, ...]
    why: str = ""


_READ, _WRITE, _CREATE, _DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
_ALTER, _DESCRIBE, _ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTIONAL_ID, _USER, _TOKEN = (
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
    ResourceType.DELEGATION_TOKEN,
)
_TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOKEN_FAILED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def _on_cluster(operation: Operation, of: str = "the cluster") -> Check:
    return Check(operation, _CLUSTER, of, _CLUSTER_FAILED)


def _topic(operation: Operation, of: str = "each topic") -> Check:
    return Check(operation, _TOPIC, of, _TOPIC_FAILED)


def _group(operation: Operation, of: str = "the group") -> Check:
    return Check(operation, _GROUP, of, _GROUP_FAILED)


def _transactional_id(operation: Operation, of: str = "the transactional id") -> Check:
    return Check(operation, _TRANSACTIONAL_ID, of, _TRANSACTIONAL_ID_FAILED)


def _asked(*checks: Check) -> Rights:
    return Rights(checks)


def _nothing(why: str) -> Rights:
    return Rights((), why)


def _operations_of(resource_type: ResourceType, versions: tuple[int, int]) -> tuple[Check, ...]:
    """The rights that an authorized-operations field tells of."""
    from moldau.common.protocol.operations import OPERATIONS_OF

    return tuple(
        Check(each, resource_type, "authorized operations", None, versions=versions, optional=True)
        for each in OPERATIONS_OF[resource_type]
    )


_CONFIGS_TYPES = (
    (_TOPIC, "each topic", _TOPIC_FAILED),
    (_GROUP, "each group", _GROUP_FAILED),
    (_CLUSTER, "brokers, their loggers, client metrics", _CLUSTER_FAILED),
)


def _configs(operation: Operation) -> Rights:
    """Settings are described and altered by the type of their resource."""
    return Rights(tuple(Check(operation, kind, of, error) for kind, of, error in _CONFIGS_TYPES))


RIGHTS: Mapping[str, Rights] = {
    # Data
    "Produce": _asked(
        _transactional_id(_WRITE, "the transactional id, where a batch is transactional"), _topic(_WRITE)
    ),
    "Fetch": _asked(
        _topic(_READ, "each topic of a consumer"),
        Check(_ACTION, _CLUSTER, "the cluster, of a follower", _TOPIC_FAILED),
    ),
    "ListOffsets": _asked(_topic(_DESCRIBE)),
    "OffsetForLeaderEpoch": _asked(
        Check(_DESCRIBE, _TOPIC, "each topic", _TOPIC_FAILED, instead=(Right(_ACTION, _CLUSTER),))
    ),
    "DeleteRecords": _asked(_topic(_DELETE)),
    "DescribeProducers": _asked(_topic(_READ)),
    # Metadata
    "Metadata": _asked(
        _topic(_DESCRIBE, "each topic; where all are asked for, the others are left out"),
        Check(
            _CREATE,
            _TOPIC,
            "each topic that would be created",
            _TOPIC_FAILED,
            instead=(Right(_CREATE, _CLUSTER),),
        ),
        *_operations_of(_TOPIC, (8, 13)),
        *_operations_of(_CLUSTER, (8, 10)),
    ),
    "DescribeTopicPartitions": _asked(
        _topic(_DESCRIBE, "each topic; where all are asked for, the others are left out"),
        *_operations_of(_TOPIC, (0, 0)),
    ),
    "DescribeCluster": _asked(*_operations_of(_CLUSTER, (0, 2))),
    "ApiVersions": _nothing("it is asked before anybody has logged in"),
    "SaslHandshake": _nothing("it is part of the login"),
    "SaslAuthenticate": _nothing("it is part of the login"),
    # Groups
    "FindCoordinator": _asked(
        _group(_DESCRIBE, "each group"),
        _transactional_id(_DESCRIBE, "each transactional id"),
        Check(
            _ACTION,
            _CLUSTER,
            "the cluster, for coordinators of share-partitions",
            _CLUSTER_FAILED,
            versions=(6, 6),
        ),
    ),
    "JoinGroup": _asked(_group(_READ)),
    "SyncGroup": _asked(_group(_READ)),
    "Heartbeat": _asked(_group(_READ)),
    "LeaveGroup": _asked(_group(_READ)),
    "ConsumerGroupHeartbeat": _asked(
        _group(_READ),
        _topic(_DESCRIBE, "each topic subscribed to by name; a pattern matches those with the right"),
    ),
    "OffsetCommit": _asked(_group(_READ), _topic(_READ)),
    "OffsetFetch": _asked(
        _group(_DESCRIBE, "each group"),
        _topic(_DESCRIBE, "each topic; where all are asked for, the others are left out"),
    ),
    "OffsetDelete": _asked(_group(_DELETE), _topic(_READ)),
    "DescribeGroups": _asked(_group(_DESCRIBE, "each group"), *_operations_of(_GROUP, (3, 6))),
    "ConsumerGroupDescribe": _asked(
        _group(_DESCRIBE, "each group"),
        _topic(_DESCRIBE, "each topic that is assigned to a member"),
        *_operations_of(_GROUP, (0, 1)),
    ),
    "ListGroups": _asked(
        Check(_DESCRIBE, _GROUP, "each group", LEFT_OUT, instead=(Right(_DESCRIBE, _CLUSTER),))
    ),
    "DeleteGroups": _asked(_group(_DELETE, "each group")),
    # Share groups
    "ShareGroupHeartbeat": _asked(_group(_READ), _topic(_DESCRIBE, "each topic subscribed to")),
    "ShareGroupDescribe": _asked(
        _group(_DESCRIBE, "each group"),
        _topic(_DESCRIBE, "each topic that is assigned to a member"),
        *_operations_of(_GROUP, (1, 1)),
    ),
    "ShareFetch": _asked(_group(_READ), _topic(_READ)),
    "ShareAcknowledge": _asked(_group(_READ), _topic(_READ)),
    "DescribeShareGroupOffsets": _asked(
        _group(_DESCRIBE, "each group"),
        _topic(_DESCRIBE, "each topic; where all are asked for, the others are left out"),
    ),
    "AlterShareGroupOffsets": _asked(_group(_READ), _topic(_READ)),
    "DeleteShareGroupOffsets": _asked(_group(_DELETE), _topic(_READ)),
    "InitializeShareGroupState": _asked(_on_cluster(_ACTION)),
    "ReadShareGroupState": _asked(_on_cluster(_ACTION)),
    "WriteShareGroupState": _asked(_on_cluster(_ACTION)),
    "DeleteShareGroupState": _asked(_on_cluster(_ACTION)),
    "ReadShareGroupStateSummary": _asked(_on_cluster(_ACTION)),
    # Transactions
    "InitProducerId": _asked(
        _transactional_id(_WRITE, "the transactional id, if there is one"),
        Check(
            Operation.IDEMPOTENT_WRITE,
            _CLUSTER,
            "the cluster, without a transactional id",
            _CLUSTER_FAILED,
            instead=(Right(_WRITE, _TOPIC),),  # on any topic
        ),
    ),
    "AddPartitionsToTxn": _asked(
        Check(_WRITE, _TRANSACTIONAL_ID, "the transactional id", _TRANSACTIONAL_ID_FAILED, versions=(0, 3)),
        Check(_WRITE, _TOPIC, "each topic", _TOPIC_FAILED, versions=(0, 3)),
        Check(_ACTION, _CLUSTER, "the cluster: brokers send it", _CLUSTER_FAILED, versions=(4, 5)),
    ),
    "AddOffsetsToTxn": _asked(_transactional_id(_WRITE), _group(_READ)),
    "EndTxn": _asked(_transactional_id(_WRITE)),
    "TxnOffsetCommit": _asked(_transactional_id(_WRITE), _group(_READ), _topic(_READ)),
    "WriteTxnMarkers": _asked(
        Check(_ACTION, _CLUSTER, "the cluster", _CLUSTER_FAILED, instead=(Right(_ALTER, _CLUSTER),))
    ),
    "DescribeTransactions": _asked(
        _transactional_id(_DESCRIBE, "each transactional id"),
        Check(_DESCRIBE, _TOPIC, "each topic in a transaction", LEFT_OUT),
    ),
    "ListTransactions": _asked(Check(_DESCRIBE, _TRANSACTIONAL_ID, "each transactional id", LEFT_OUT)),
    # Topics and settings
    "CreateTopics": _asked(
        Check(_CREATE, _TOPIC, "each topic", _TOPIC_FAILED, instead=(Right(_CREATE, _CLUSTER),)),
        Check(_DESCRIBE_CONFIGS, _TOPIC, "the settings told", None, versions=(5, 7), optional=True),
    ),
    "CreatePartitions": _asked(_topic(_ALTER)),
    "DeleteTopics": _asked(
        Check(_DELETE, _TOPIC, "each topic", _TOPIC_FAILED, instead=(Right(_DELETE, _CLUSTER),)),
        Check(_DESCRIBE, _TOPIC, "the name of a topic id", None, optional=True),
    ),
    "DescribeConfigs": _configs(_DESCRIBE_CONFIGS),
    "AlterConfigs": _configs(_ALTER_CONFIGS),
    "IncrementalAlterConfigs": _configs(_ALTER_CONFIGS),
    "ListConfigResources": _asked(_on_cluster(_DESCRIBE_CONFIGS)),
    # The cluster
    "AlterReplicaLogDirs": _asked(_on_cluster(_ALTER)),
    "DescribeLogDirs": _asked(_on_cluster(_DESCRIBE)),
    "ElectLeaders": _asked(_on_cluster(_ALTER)),
    "AlterPartitionReassignments": _asked(_on_cluster(_ALTER)),
    "ListPartitionReassignments": _asked(_on_cluster(_DESCRIBE)),
    "UnregisterBroker": _asked(_on_cluster(_ALTER)),
    "UpdateFeatures": _asked(_on_cluster(_ALTER)),
    "DescribeQuorum": _asked(_on_cluster(_DESCRIBE)),
    # Moldau's own
    "AlterMirrors": _asked(_on_cluster(_ALTER)),
    "DescribeMirrors": _asked(_on_cluster(_DESCRIBE)),
    # Security
    "CreateAcls": _asked(_on_cluster(_ALTER)),
    "DeleteAcls": _asked(_on_cluster(_ALTER)),
    "DescribeAcls": _asked(_on_cluster(_DESCRIBE)),
    "AlterUserScramCredentials": _asked(_on_cluster(_ALTER)),
    "DescribeUserScramCredentials": _asked(_on_cluster(_DESCRIBE)),
    "AlterClientQuotas": _asked(_on_cluster(_ALTER_CONFIGS)),
    "DescribeClientQuotas": _asked(_on_cluster(_DESCRIBE_CONFIGS)),
    "CreateDelegationToken": _asked(
        Check(
            Operation.CREATE_TOKENS,
            _USER,
            "the owner, if it is somebody else",
            _TOKEN_FAILED,
            versions=(3, 3),
        )
    ),
    "DescribeDelegationToken": _asked(
        Check(
            _DESCRIBE,
            _TOKEN,
            "each token of somebody else",
            LEFT_OUT,
            instead=(Right(Operation.DESCRIBE_TOKENS, _USER),),
        )
    ),
    "RenewDelegationToken": _nothing("a token's owner and its renewers may"),
    "ExpireDelegationToken": _nothing("a token's owner and its renewers may"),
}
