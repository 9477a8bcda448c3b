"""Metrics of compaction: Kafka's log cleaner names, and our own."""

from collections.abc import Iterator

from moldau.broker.log.compaction.report import CompactionReport
from moldau.broker.monitor.exposition import labels, samples, single


def compaction(report: CompactionReport) -> Iterator[str]:
    """All metrics of compaction."""
    last, totals = report.last, report.totals
    recopied = utilization = 0.0
    if last is not None:
        done = last.result.statistics
        recopied = 100 * done.bytes_out / done.bytes_in if done.bytes_in else 0.0
        utilization = 100 * done.map_load
    waiting, waiting_bytes = report.backlog()
    manager, cleaner = "kafka_log_logcleanermanager", "kafka_log_logcleaner"
    figures: dict[str, float] = {
        f"{manager}_uncleanable_partitions_count": len(report.troubles),
        f"{manager}_uncleanable_bytes": report.uncleanable_bytes(),
        f"{manager}_max_dirty_percent": round(100 * report.dirty_ratio_max),
        f"{manager}_time_since_last_run_ms": round(report.since_look_ms),
        f"{cleaner}_max_buffer_utilization_percent": round(utilization),
        f"{cleaner}_cleaner_recopy_percent": round(recopied),
        f"{cleaner}_max_clean_time_secs": round(report.seconds_max),
        f"{cleaner}_max_compaction_delay_secs": report.overdue_ms_max // 1000,
        f"{cleaner}_deadthreadcount": totals.workers_lost,
        "moldau_compaction_backlog_partitions": waiting,
        "moldau_compaction_backlog_bytes": waiting_bytes,
        "moldau_compaction_cleans_total": totals.cleans,
        "moldau_compaction_failures_total": totals.failures,
        "moldau_compaction_read_bytes_total": totals.bytes_read,
        "moldau_compaction_written_bytes_total": totals.bytes_written,
        "moldau_compaction_read_records_total": totals.records_read,
        "moldau_compaction_written_records_total": totals.records_written,
        "moldau_compaction_seconds_total": round(totals.seconds, 3),
        "moldau_compaction_last_seconds": 0.0 if last is None else round(last.result.statistics.seconds, 3),
        "moldau_compaction_last_timestamp_seconds": 0.0 if last is None else last.at_ms / 1000,
    }
    yield "".join([single(name, value) for name, value in figures.items()])
    running = [
        (labels(topic=each.key[0], partition=each.key[1]), each) for each in list(report.running.values())
    ]
    yield samples("moldau_compaction_progress", [(tag, round(each.share, 4)) for tag, each in running])
    yield samples(
        "moldau_compaction_bytes_per_second",
        [(tag, round(report.bytes_per_second(each))) for tag, each in running],
    )
