"""The objects of v3's requests and responses."""

from __future__ import annotations

from moldau.services.rest.openapi.types import (
    ANYTHING,
    FLAG,
    INTEGER,
    LONG,
    TEXT,
    Schema,
    list_of,
    nullable,
    obj,
    one_of,
    optional,
    ref,
)
from moldau.services.rest.v3.read_records import READ_FORMATS

_RELATED = ref("Relationship")
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_BYTES: Schema = {"type": "string", "description": "Base64."}
"""No `format: byte`: clients that are generated with it send no JSON."""
_OPERATIONS = (
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
)
_FORMATS = ("BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF")


def _resource(**properties: Schema) -> Schema:
    return obj(kind=TEXT, metadata=ref("ResourceMetadata"), cluster_id=TEXT, **properties)


def _config(**properties: Schema) -> Schema:
    return _resource(
        **properties,
        name=TEXT,
        value=nullable(TEXT),
        is_default=FLAG,
        is_read_only=FLAG,
        is_sensitive=FLAG,
        source=TEXT,
        synonyms=list_of(ref("ConfigSynonymData")),
    )


RESOURCES: dict[str, Schema] = {
    "ClusterData": _resource(
        controller=optional(_RELATED),
        acls=_RELATED,
        brokers=_RELATED,
        broker_configs=_RELATED,
        consumer_groups=_RELATED,
        topics=_RELATED,
        partition_reassignments=_RELATED,
    ),
    "BrokerData": _resource(
        broker_id=INTEGER,
        host=nullable(TEXT),
        port=nullable(INTEGER),
        rack=optional(nullable(TEXT)),
        configs=_RELATED,
        partition_replicas=_RELATED,
    ),
    "TopicData": _resource(
        topic_name=TEXT,
        is_internal=FLAG,
        replication_factor=INTEGER,
        partitions_count=INTEGER,
        partitions=_RELATED,
        configs=_RELATED,
        partition_reassignments=_RELATED,
        authorized_operations=optional(list_of(ref("AclOperation"))),
    ),
    "PartitionData": _resource(
        topic_name=TEXT,
        partition_id=INTEGER,
        leader=optional(_RELATED),
        replicas=_RELATED,
        reassignment=_RELATED,
    ),
    "ReplicaData": _resource(
        topic_name=TEXT,
        partition_id=INTEGER,
        broker_id=INTEGER,
        is_leader=FLAG,
        is_in_sync=FLAG,
        broker=_RELATED,
    ),
    "ReassignmentData": _resource(
        topic_name=TEXT,
        partition_id=INTEGER,
        adding_replicas=list_of(INTEGER),
        removing_replicas=list_of(INTEGER),
        replicas=_RELATED,
    ),
    "TopicConfigData": _config(topic_name=TEXT),
    "BrokerConfigData": _config(broker_id=INTEGER),
    "ClusterConfigData": _config(config_type=one_of("BROKER")),
    "ConsumerGroupData": _resource(
        consumer_group_id=TEXT,
        is_simple=FLAG,
        partition_assignor=TEXT,
        state=one_of("UNKNOWN", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE", "DEAD", "EMPTY"),
        type=one_of("CLASSIC", "CONSUMER"),
        is_mixed_consumer_group=FLAG,
        coordinator=_RELATED,
        consumers=_RELATED,
        lag_summary=_RELATED,
    ),
    "ConsumerData": _resource(
        consumer_group_id=TEXT,
        consumer_id=TEXT,
        instance_id=nullable(TEXT),
        client_id=TEXT,
        assignments=_RELATED,
    ),
    "ConsumerAssignmentData": _resource(
        consumer_group_id=TEXT,
        consumer_id=TEXT,
        topic_name=TEXT,
        partition_id=INTEGER,
        partition=_RELATED,
        lag=_RELATED,
    ),
    "ConsumerLagData": _resource(
        consumer_group_id=TEXT,
        topic_name=TEXT,
        partition_id=INTEGER,
        consumer_id=TEXT,
        instance_id=nullable(TEXT),
        client_id=TEXT,
        current_offset=LONG,
        log_end_offset=LONG,
        lag=LONG,
    ),
    "AclData": _resource(
        resource_type=ref("AclResourceType"),
        resource_name=TEXT,
        pattern_type=ref("AclPatternType"),
        principal=TEXT,
        host=TEXT,
        operation=ref("AclOperation"),
        permission=ref("AclPermission"),
    ),
}
"""Resources that are also listed: each has a list of its name with `List` behind."""

_LISTS: dict[str, Schema] = {
    f"{name}List": obj(kind=TEXT, metadata=ref("ResourceCollectionMetadata"), data=list_of(ref(name)))
    for name in RESOURCES
}

_REQUESTS: dict[str, Schema] = {
    "CreateTopicRequestData": obj(
        topic_name=TEXT,
        partitions_count=optional(INTEGER),
        replication_factor=optional(INTEGER),
        replicas_assignments=optional(list_of(ref("ReplicasAssignmentData"))),
        configs=optional(list_of(ref("ConfigValueData"))),
        validate_only=optional(FLAG),
    ),
    "UpdatePartitionCountRequestData": obj(partitions_count=INTEGER),
    "UpdateConfigRequestData": obj(value=optional(nullable(TEXT))),
    "AlterConfigBatchRequestData": obj(data=list_of(ref("ConfigChangeData")), validate_only=optional(FLAG)),
    "AlterMultipleTopicsConfigBatchRequestData": obj(
        data=list_of(ref("TopicConfigChangesData")), validate_only=optional(FLAG)
    ),
    "CreateAclRequestData": obj(
        resource_type=ref("AclResourceType"),
        resource_name=TEXT,
        pattern_type=ref("AclPatternType"),
        principal=TEXT,
        host=TEXT,
        operation=ref("AclOperation"),
        permission=ref("AclPermission"),
    ),
    "CreateAclRequestDataList": obj(data=list_of(ref("CreateAclRequestData"))),
}

_REPORT = {
    "cluster_id": TEXT,
    "topic_name": TEXT,
    "partition_id": INTEGER,
    "offset": LONG,
    "timestamp": optional(_MOMENT),
    "key": optional(ref("ProduceResponseData")),
    "value": optional(ref("ProduceResponseData")),
}
_RECORD = {
    "partition_id": optional(nullable(INTEGER)),
    "headers": optional(list_of(ref("ProduceRequestHeader"))),
    "key": optional(nullable(ref("ProduceRequestData"))),
    "value": optional(nullable(ref("ProduceRequestData"))),
    "timestamp": optional(nullable(_MOMENT)),
}
_RECORDS: dict[str, Schema] = {
    "ProduceRequest": obj(**_RECORD),
    "ProduceRequestData": obj(
        type=optional(one_of(*_FORMATS)),
        subject=optional(nullable(TEXT)),
        subject_name_strategy=optional(nullable(one_of("TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"))),
        schema_id=optional(nullable(INTEGER)),
        schema_version=optional(nullable(INTEGER)),
        schema=optional(nullable(TEXT)),
        data=optional(ANYTHING),
    ),
    "ProduceResponse": obj(
        error_code=INTEGER,
        message=optional(TEXT),
        **{name: optional(each) for name, each in _REPORT.items()},
    ),
    "ProduceResponseData": obj(
        type=one_of(*_FORMATS),
        subject=optional(TEXT),
        schema_id=optional(INTEGER),
        schema_version=optional(INTEGER),
        size=INTEGER,
    ),
    "ProduceBatchRequest": obj(entries=list_of(ref("ProduceBatchRequestEntry"))),
    "ProduceBatchRequestEntry": obj(id=TEXT, **_RECORD),
    "ProduceBatchResponse": obj(
        successes=list_of(ref("ProduceBatchResponseSuccessEntry")),
        failures=list_of(ref("ProduceBatchResponseFailureEntry")),
    ),
    "ProduceBatchResponseSuccessEntry": obj(id=TEXT, **_REPORT),
    "ProduceBatchResponseFailureEntry": obj(id=TEXT, error_code=INTEGER, message=TEXT),
    "ProduceRequestHeader": obj(name=TEXT, value=optional(nullable(_BYTES))),
    "RecordHeader": obj(name=TEXT, value=nullable(_BYTES)),
    "ReadFormat": {"type": "string", "enum": READ_FORMATS},
    "RecordPart": obj(
        type=one_of(*_FORMATS),
        schema_id=optional(INTEGER),
        schema_guid=optional(TEXT),
        data=ANYTHING,
        error=optional(TEXT),
    ),
    "Record": obj(
        partition_id=INTEGER,
        offset=LONG,
        timestamp=optional(_MOMENT),
        timestamp_type=optional(one_of("CREATE_TIME", "LOG_APPEND_TIME")),
        headers=list_of(ref("RecordHeader")),
        key=nullable(ref("RecordPart")),
        value=nullable(ref("RecordPart")),
    ),
    "RecordList": obj(kind=TEXT, metadata=ref("ResourceCollectionMetadata"), data=list_of(ref("Record"))),
}

_OTHERS: dict[str, Schema] = {
    "Error": obj(error_code=INTEGER, message=TEXT),
    "Relationship": obj(related=TEXT),
    "ResourceMetadata": {**obj(self=TEXT, resource_name=optional(nullable(TEXT)))},
    "ResourceCollectionMetadata": {**obj(self=TEXT, next=optional(nullable(TEXT)))},
    "AclResourceType": one_of(
        "UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"
    ),
    "AclPatternType": one_of("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"),
    "AclOperation": one_of(*_OPERATIONS),
    "AclPermission": one_of("UNKNOWN", "ANY", "DENY", "ALLOW"),
    "PartitionWithOffsetsData": _resource(
        topic_name=TEXT, partition_id=INTEGER, earliest_offset=LONG, latest_offset=LONG
    ),
    "ConfigSynonymData": obj(name=TEXT, value=nullable(TEXT), source=TEXT),
    "ConfigValueData": obj(name=TEXT, value=optional(nullable(TEXT))),
    "ConfigChangeData": obj(
        name=TEXT,
        value=optional(nullable(TEXT)),
        operation=optional(nullable(one_of("SET", "DELETE"))),
    ),
    "TopicConfigChangesData": obj(topic_name=TEXT, configs=list_of(ref("ConfigChangeData"))),
    "TopicConfigFailure": obj(topic_name=TEXT, error_code=INTEGER, message=optional(TEXT)),
    "ReplicasAssignmentData": obj(partition_id=INTEGER, broker_ids=list_of(INTEGER)),
    "DeletedAcls": obj(data=list_of(ref("AclData"))),
    "ConsumerGroupLagSummaryData": _resource(
        consumer_group_id=TEXT,
        max_lag_consumer_id=TEXT,
        max_lag_instance_id=nullable(TEXT),
        max_lag_client_id=TEXT,
        max_lag_topic_name=TEXT,
        max_lag_partition_id=INTEGER,
        max_lag=LONG,
        total_lag=LONG,
        max_lag_consumer=_RELATED,
        max_lag_partition=_RELATED,
    ),
    "AlterMultipleTopicsConfigsResponse": obj(failures=list_of(ref("TopicConfigFailure"))),
}

SCHEMAS: dict[str, Schema] = {**RESOURCES, **_LISTS, **_REQUESTS, **_RECORDS, **_OTHERS}
"""All schemas of v3 by name."""
