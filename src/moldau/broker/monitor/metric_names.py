"""Every metric of /metrics: name, type and description; read by the rendering, the documentation and the
tests.

Three families of names, so that existing dashboards and alerts work unchanged: those of kafka_exporter
(offsets and lag), those that Strimzi's rules for the JMX exporter give Kafka's own metrics, and
`process_*`/`python_*` as in every Prometheus client. `moldau_*` are our own.
"""

from typing import NamedTuple


class Metric(NamedTuple):
    """One metric's type (gauge, counter, histogram) and description, with the unit."""

    type: str
    help: str


def _gauge(text: str) -> Metric:
    return Metric("gauge", text)


def _counter(text: str) -> Metric:
    return Metric("counter", text)


KAFKA_EXPORTER = {
    "kafka_brokers": _gauge("Brokers in the cluster."),
    "kafka_broker_info": _gauge("1, with a broker's id and address as labels."),
    "kafka_topic_partitions": _gauge("Partitions of the topic."),
    "kafka_topic_partition_current_offset": _gauge(
        "The partition's high watermark: the next offset readers wait for."
    ),
    "kafka_topic_partition_oldest_offset": _gauge("The partition's first offset."),
    "kafka_topic_partition_leader": _gauge("Node id of the partition's leader, -1 for none."),
    "kafka_topic_partition_leader_is_preferred": _gauge("1 if the leader is the first replica."),
    "kafka_topic_partition_replicas": _gauge("Replicas of the partition."),
    "kafka_topic_partition_in_sync_replica": _gauge("In-sync replicas of the partition."),
    "kafka_topic_partition_under_replicated_partition": _gauge("1 if a replica is not in sync."),
    "kafka_consumergroup_current_offset": _gauge("The group's committed offset, -1 if it has none here."),
    "kafka_consumergroup_current_offset_sum": _gauge("The group's committed offsets of the topic, added up."),
    "kafka_consumergroup_lag": _gauge("Records between the group's committed offset and the high watermark."),
    "kafka_consumergroup_lag_sum": _gauge("The group's lag in the topic, added up."),
    "kafka_consumergroup_members": _gauge("Members of the group."),
}

_TOPICS = "of the topic in the label, of all topics without one"

STRIMZI = {
    "kafka_server_brokertopicmetrics_messagesin_total": _counter(f"Records produced, {_TOPICS}."),
    "kafka_server_brokertopicmetrics_bytesin_total": _counter(
        f"Bytes of record batches produced, {_TOPICS}."
    ),
    "kafka_server_brokertopicmetrics_bytesout_total": _counter(
        f"Bytes of record batches fetched, {_TOPICS}."
    ),
    "kafka_server_brokertopicmetrics_totalproducerequests_total": _counter(f"Produce requests, {_TOPICS}."),
    "kafka_server_brokertopicmetrics_totalfetchrequests_total": _counter(f"Fetch requests, {_TOPICS}."),
    "kafka_server_brokertopicmetrics_failedproducerequests_total": _counter(
        f"Refused Produce requests, {_TOPICS}."
    ),
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": _counter(
        f"Refused Fetch requests, {_TOPICS}."
    ),
    "kafka_network_requestmetrics_requests_total": _counter("Requests by API and version."),
    "kafka_server_replicamanager_partitioncount": _gauge("Partitions on this broker."),
    "kafka_server_replicamanager_leadercount": _gauge("Partitions that this broker leads."),
    "kafka_server_replicamanager_offlinereplicacount": _gauge("Partitions here whose log is offline."),
    "kafka_server_replicamanager_underreplicatedpartitions": _gauge(
        "Led here, with replicas that are not in sync."
    ),
    "kafka_server_replicamanager_underminisrpartitioncount": _gauge("Led here, below min.insync.replicas."),
    "kafka_server_replicamanager_atminisrpartitioncount": _gauge("Led here, exactly at min.insync.replicas."),
    "kafka_server_replicamanager_isrshrinks_total": _counter("In-sync sets led here that lost a member."),
    "kafka_server_replicamanager_isrexpands_total": _counter("In-sync sets led here that got a member."),
    "kafka_server_replicamanager_reassigningpartitions": _gauge("Led here, and being reassigned."),
    "kafka_server_replicafetchermanager_maxlag": _gauge(
        "Records that the followed partition furthest behind its leader lacks."
    ),
    "kafka_server_replicafetchermanager_failedpartitionscount": _gauge(
        "Partitions whose leader cannot be fetched from now."
    ),
    "kafka_server_fetcherlagmetrics_consumerlag": _gauge(
        "Records that a followed partition lacks; only of partitions that lack some."
    ),
    "kafka_server_brokertopicmetrics_replicationbytesin_total": _counter(
        "Bytes of record batches fetched from leaders."
    ),
    "kafka_server_brokertopicmetrics_replicationbytesout_total": _counter(
        "Bytes of record batches that followers fetched here."
    ),
    "kafka_cluster_partition_underminisr": _gauge("1 if the partition is below min.insync.replicas."),
    "kafka_cluster_partition_atminisr": _gauge("1 if the partition is exactly at min.insync.replicas."),
    "kafka_cluster_partition_laststableoffsetlag": _gauge(
        "Offsets between what read_committed readers may see and the high watermark."
    ),
    "kafka_controller_kafkacontroller_activecontrollercount": _gauge(
        "1 on the broker that is the controller."
    ),
    "kafka_controller_kafkacontroller_offlinepartitionscount": _gauge("Partitions without a leader."),
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": _gauge(
        "Partitions not led by their first replica."
    ),
    "kafka_controller_kafkacontroller_globaltopiccount": _gauge("Topics in the cluster."),
    "kafka_controller_kafkacontroller_globalpartitioncount": _gauge("Partitions in the cluster."),
    "kafka_controller_kafkacontroller_activebrokercount": _gauge("Brokers that may lead."),
    "kafka_controller_kafkacontroller_fencedbrokercount": _gauge(
        "Brokers that are registered but may not lead."
    ),
    "kafka_server_kafkaserver_brokerstate": _gauge(
        "0 not running, 1 starting, 2 recovery, 3 running, 7 shutting down."
    ),
    "kafka_network_socketserver_memorypoolused": _gauge(
        "Bytes of large requests that are received, wait or are handled."
    ),
    "kafka_network_socketserver_memorypoolavailable": _gauge(
        "What is left of queued.max.request.bytes for them."
    ),
    "kafka_server_socket_server_metrics_connection_count": _gauge("Open client connections by listener."),
    "kafka_server_socket_server_metrics_connection_creation_total": _counter(
        "Connections accepted, by listener."
    ),
    "kafka_server_socket_server_metrics_successful_authentication_total": _counter(
        "Logins with SASL that succeeded, by listener."
    ),
    "kafka_server_socket_server_metrics_failed_authentication_total": _counter(
        "Logins with SASL that were refused, and TLS handshakes that failed, by listener."
    ),
    "kafka_server_socket_server_metrics_successful_reauthentication_total": _counter(
        "Re-authentications (connections.max.reauth.ms) that succeeded, by listener."
    ),
    "kafka_server_socket_server_metrics_failed_reauthentication_total": _counter(
        "Re-authentications that were refused, by listener."
    ),
    "kafka_server_socket_server_metrics_expired_connections_killed_count": _counter(
        "Connections closed because their login had ended, by listener."
    ),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": _gauge(
        "Share (0 to 1) of the last minute in which the event loop used no CPU."
    ),
    "kafka_network_socketserver_networkprocessoravgidle_percent": _gauge(
        "The same: one event loop does both jobs."
    ),
    "kafka_log_log_size": _gauge("Bytes of the partition's log."),
    "kafka_log_log_numlogsegments": _gauge("Segments of the partition's log."),
    "kafka_log_log_logstartoffset": _gauge("The log's first offset."),
    "kafka_log_log_logendoffset": _gauge("The offset that the next record gets."),
    "kafka_log_logcleanermanager_uncleanable_partitions_count": _gauge("Logs that could not be compacted."),
    "kafka_log_logcleanermanager_uncleanable_bytes": _gauge("Their bytes that wait for compaction."),
    "kafka_log_logcleanermanager_max_dirty_percent": _gauge("Uncompacted share of the dirtiest log, 0-100."),
    "kafka_log_logcleanermanager_time_since_last_run_ms": _gauge(
        "How long ago it was last looked which logs need compaction."
    ),
    "kafka_log_logcleaner_max_buffer_utilization_percent": _gauge(
        "How full the map of keys was in the last clean, 0-100."
    ),
    "kafka_log_logcleaner_cleaner_recopy_percent": _gauge("What the last clean has kept, in % of its bytes."),
    "kafka_log_logcleaner_max_clean_time_secs": _gauge("How long the longest clean took."),
    "kafka_log_logcleaner_max_compaction_delay_secs": _gauge(
        "How far max.compaction.lag.ms is exceeded in some log."
    ),
    "kafka_log_logcleaner_deadthreadcount": _gauge("Worker processes of compaction that have died."),
    "kafka_log_logmanager_offlinelogdirectorycount": _gauge("Data directories that are offline."),
    "kafka_coordinator_group_groupmetadatamanager_numgroups": _gauge("Groups that this broker coordinates."),
    "kafka_coordinator_group_groupmetadatamanager_numoffsets": _gauge(
        "Committed offsets that this broker keeps."
    ),
}

PROCESS = {
    "process_cpu_seconds_total": _counter("CPU time of the process, in seconds."),
    "process_resident_memory_bytes": _gauge("Memory in RAM."),
    "process_virtual_memory_bytes": _gauge("Virtual memory."),
    "process_start_time_seconds": _gauge("When the process began, in seconds since 1970."),
    "process_open_fds": _gauge("Open file descriptors."),
    "process_max_fds": _gauge("Limit of open file descriptors."),
    "python_info": _gauge("1, with the interpreter's version as labels."),
    "python_gc_collections_total": _counter("Runs of the garbage collector, by generation."),
    "python_gc_objects_collected_total": _counter("Objects that the garbage collector freed, by generation."),
    "python_gc_objects_uncollectable_total": _counter("Objects it could not free, by generation."),
}

MOLDAU = {
    "moldau_build_info": _gauge("1, with version, node id and cluster id as labels."),
    "moldau_uptime_seconds": _gauge("Seconds since the broker began to start."),
    "moldau_health_verdict": _gauge("0 ok, 1 degraded, 2 failing."),
    "moldau_health_condition": _gauge("1 if the condition (docs/monitoring.md) is present, else 0."),
    "moldau_ready": _gauge("1 if clients are served."),
    "moldau_event_loop_lag_seconds": _gauge(
        "How late the event loop ran in the last minute: quantiles 0.5, 0.99, 1."
    ),
    "moldau_request_duration_seconds": Metric(
        "histogram",
        "From a request's arrival to its answer, by API; a Fetch's includes its long poll, and of a "
        "producer's repeated requests one in 16 is timed for all.",
    ),
    "moldau_connections_refused_total": _counter(
        "Connections refused because a limit was reached, by listener."
    ),
    "moldau_quota_used": _gauge(
        "What the clients that share a quota use a second: bytes (kind=produce, fetch), percent of the event "
        "loop (request), partitions made or deleted (mutation). An empty label: of all users or client ids. "
        "Of each kind the 500 that were seen last."
    ),
    "moldau_quota_limit": _gauge("Their quota, in the same unit."),
    "moldau_quota_throttled_total": _counter(
        "How often a client was told to wait, or a connection not served, by kind of quota."
    ),
    "moldau_quota_throttled_seconds_total": _counter("The time they were told, by kind of quota."),
    "moldau_quota_muted_connections": _gauge("Connections that wait for their quota now."),
    "moldau_request_memory_depleted_seconds_total": _counter(
        "How long requests waited because queued.max.request.bytes was used up."
    ),
    "moldau_response_memory_used_bytes": _gauge("Bytes of answers that clients have not taken yet."),
    "moldau_response_memory_limit_bytes": _gauge("moldau.queued.max.response.bytes."),
    "moldau_connections_closed_for_memory_total": _counter(
        "Connections closed because they held memory while a limit was reached: kind=request or response."
    ),
    "moldau_client_state_used_bytes": _gauge(
        "What clients make the broker keep between their requests, by kind: logins, fetch_sessions, "
        "share_sessions, groups."
    ),
    "moldau_client_state_limit_bytes": _gauge("moldau.client.state.max.bytes."),
    "moldau_client_state_evicted_total": _counter(
        "Fetch sessions and unfinished logins that were closed to make room, by kind."
    ),
    "moldau_client_state_refused_total": _counter(
        "Fetch sessions and joins of groups that were refused for want of room, by kind."
    ),
    "moldau_round_trips_total": _counter(
        "Records that the broker wrote through its own listener and read back."
    ),
    "moldau_round_trips_failed_total": _counter("Such records that were not written, or not read back."),
    "moldau_round_trip_last_seconds": _gauge("How long the last such round trip took."),
    "moldau_fsyncs_total": _counter(
        "Files forced to the disk for acknowledgements (moldau.durability=group)."
    ),
    "moldau_fsync_last_seconds": _gauge("How long the last such fsync took."),
    "moldau_appends_waiting": _gauge("Written batches that wait to be committed."),
    "moldau_unreadable_batches": _gauge("Batches here that no consumer can read, as far as they were met."),
    "moldau_disk_free_bytes": _gauge("Free bytes of the disk under a data directory."),
    "moldau_disk_size_bytes": _gauge("Size of the disk under a data directory."),
    "moldau_log_dir_full": _gauge(
        "1 if produce requests to the data directory fail because its disk is full."
    ),
    "moldau_recovery_logs": _gauge("Logs to open at the start: state=done and state=total."),
    "moldau_compaction_progress": _gauge("How much of a running clean is done, 0 to 1."),
    "moldau_compaction_bytes_per_second": _gauge("How fast a running clean reads and writes."),
    "moldau_compaction_backlog_partitions": _gauge("Logs that are due for compaction and wait."),
    "moldau_compaction_backlog_bytes": _gauge("What cleaning them has to read."),
    "moldau_compaction_cleans_total": _counter("Cleans that have been put in place."),
    "moldau_compaction_failures_total": _counter("Cleans that have failed."),
    "moldau_compaction_read_bytes_total": _counter("Bytes read by compaction."),
    "moldau_compaction_written_bytes_total": _counter("Bytes written by compaction."),
    "moldau_compaction_read_records_total": _counter("Records that compaction has looked at."),
    "moldau_compaction_written_records_total": _counter("Those of them that it has kept."),
    "moldau_compaction_seconds_total": _counter("Time spent in cleans."),
    "moldau_compaction_last_seconds": _gauge("How long the last clean took."),
    "moldau_compaction_last_timestamp_seconds": _gauge("When it ended, in seconds since 1970; 0: never."),
    "moldau_mirror_would_lose_seconds": _gauge(
        "Of a partition that is pulled from another cluster: what a failover now would lose at most."
    ),
    "moldau_mirror_behind_records": _gauge("How many offsets it is behind the source's high watermark."),
    "moldau_mirror_cut_records_total": _counter("Records cut off because the source had lost them."),
    "moldau_mirror_missed_records_total": _counter("Offsets that the source deleted before they came."),
    "moldau_mirror_bytes_total": _counter("Bytes pulled over a link."),
    "moldau_broker_state": _gauge("Of each registered broker: 1 serves, 2 is shutting down, 0 is gone."),
    "moldau_broker_leaders": _gauge("Partitions that each broker leads."),
    "moldau_broker_replicas": _gauge("Replicas that each broker has."),
    "moldau_missing_replicas": _gauge(
        "Replicas that are not in sync, by their broker and cause: gone, shutting down, offline, behind."
    ),
    "moldau_reassigning_partitions": _gauge("Partitions of the cluster that are being reassigned."),
    "moldau_metadata_version": _gauge("Version of the metadata that this broker has."),
    "moldau_metadata_store_up": _gauge("1 if the metadata store on other machines is reached."),
    "moldau_metadata_store_latency_seconds": _gauge("How long its last answer took."),
    "moldau_replica_fetches_total": _counter("Fetch requests to leaders."),
    "moldau_replica_fetches_failed_total": _counter("Those of them that failed as a whole."),
    "moldau_replica_fetch_errors_total": _counter("Partitions in their answers that had an error."),
    "moldau_replica_fetch_corrupt_total": _counter("Partitions in them whose batches were damaged."),
    "moldau_groups": _gauge("Groups by protocol (classic, consumer) and state."),
    "moldau_transactional_ids": _gauge("Transactional ids that this broker coordinates, by state."),
    "moldau_transactions_ended_total": _counter(
        "Transactions decided here, by how: committed, aborted, fenced (another producer took the id), "
        "timed-out."
    ),
    "moldau_transaction_markers_pending": _gauge(
        "Partitions that still lack the marker of a decided transaction."
    ),
    "moldau_transaction_markers_oldest_seconds": _gauge(
        "How long ago the oldest transaction was decided that is not carried out everywhere."
    ),
    "moldau_partitions_held_back": _gauge(
        "Partitions led here in which an open transaction holds back read_committed readers."
    ),
    "moldau_partitions_held_back_hanging": _gauge(
        "Those of them whose transaction no coordinator knows, so that no marker will end it."
    ),
    "moldau_partitions_held_back_oldest_seconds": _gauge("How long the longest of them is held back."),
}

METRICS: dict[str, Metric] = {**KAFKA_EXPORTER, **STRIMZI, **PROCESS, **MOLDAU}
"""All of them, in the order of the documentation."""
