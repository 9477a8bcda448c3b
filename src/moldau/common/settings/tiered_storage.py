"""The broker's settings about tiered storage (KIP-405), which is not served yet; they are accepted and
described."""

from moldau.common.settings.rows import MAX_LONG, Scope
from moldau.common.settings.table import SettingsObject, boolean, integer, long, part, text

_CLUSTER = Scope.CLUSTER_WIDE


@part
class TieredStorageSettings(SettingsObject):
    """Segments that lie elsewhere."""

    follower_fetch_last_tiered_offset_enable: bool = boolean(
        False,
        "Whether a new follower begins at the last offset that tiered storage holds.",
        scope=_CLUSTER,
        effective=False,
    )
    remote_fetch_max_wait_ms: int = integer(
        500,
        "How long a Fetch request may wait for tiered storage, in milliseconds.",
        scope=_CLUSTER,
        effective=False,
    )
    remote_list_offsets_request_timeout_ms: int = long(
        30_000,
        "How long a ListOffsets request may wait for tiered storage, in milliseconds.",
        scope=_CLUSTER,
        effective=False,
    )
    remote_log_index_file_cache_total_size_bytes: int = long(
        1_073_741_824,
        "Local disk space for indexes of tiered segments, in bytes.",
        scope=_CLUSTER,
        effective=False,
    )
    remote_log_manager_copier_thread_pool_size: int = integer(
        10, "Threads that copy segments to tiered storage.", scope=_CLUSTER, effective=False
    )
    remote_log_manager_copy_max_bytes_per_second: int = long(
        MAX_LONG,
        "The most bytes that are copied to tiered storage in a second.",
        scope=_CLUSTER,
        effective=False,
    )
    remote_log_manager_copy_quota_window_num: int = integer(
        11, "How many samples the quota of copies to tiered storage is measured over.", effective=False
    )
    remote_log_manager_copy_quota_window_size_seconds: int = integer(
        1, "How many seconds each sample of the quota of copies to tiered storage covers.", effective=False
    )
    remote_log_manager_expiration_thread_pool_size: int = integer(
        10, "Threads that delete expired segments from tiered storage.", scope=_CLUSTER, effective=False
    )
    remote_log_manager_fetch_max_bytes_per_second: int = long(
        MAX_LONG,
        "The most bytes that are fetched from tiered storage in a second.",
        scope=_CLUSTER,
        effective=False,
    )
    remote_log_manager_fetch_quota_window_num: int = integer(
        11, "How many samples the quota of fetches from tiered storage is measured over.", effective=False
    )
    remote_log_manager_fetch_quota_window_size_seconds: int = integer(
        1, "How many seconds each sample of the quota of fetches from tiered storage covers.", effective=False
    )
    remote_log_manager_follower_thread_pool_size: int = integer(
        2, "Threads that followers spend on tiered storage.", scope=_CLUSTER, effective=False
    )
    remote_log_manager_task_interval_ms: int = long(
        30_000, "How often segments for tiered storage are looked for, in milliseconds.", effective=False
    )
    remote_log_manager_thread_pool_size: int = integer(
        2,
        "Threads that followers spent on tiered storage before there was a setting for them.",
        effective=False,
    )
    remote_log_metadata_custom_metadata_max_bytes: int = integer(
        128, "The most bytes that a tiered storage may remember of its own for a segment.", effective=False
    )
    remote_log_metadata_manager_class_name: str = text(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "The class that remembers which segments lie in tiered storage.",
        effective=False,
    )
    remote_log_metadata_manager_class_path: str | None = text(
        None, "Where the class of remote.log.metadata.manager.class.name is found.", effective=False
    )
    remote_log_metadata_manager_impl_prefix: str = text(
        "rlmm.config.",
        "How names begin that are meant for the class of remote.log.metadata.manager.class.name.",
        effective=False,
    )
    remote_log_metadata_manager_listener_name: str | None = text(
        None, "The listener by which the memory of tiered segments reaches the brokers.", effective=False
    )
    remote_log_reader_max_pending_tasks: int = integer(
        100, "The most reads of tiered storage that may wait.", effective=False
    )
    remote_log_reader_threads: int = integer(
        10, "Threads that read from tiered storage.", scope=_CLUSTER, effective=False
    )
    remote_log_storage_manager_class_name: str | None = text(
        None, "The class that keeps segments in tiered storage.", effective=False
    )
    remote_log_storage_manager_class_path: str | None = text(
        None, "Where the class of remote.log.storage.manager.class.name is found.", effective=False
    )
    remote_log_storage_manager_impl_prefix: str = text(
        "rsm.config.",
        "How names begin that are meant for the class of remote.log.storage.manager.class.name.",
        effective=False,
    )
