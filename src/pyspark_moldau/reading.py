"""The executor's side: ranges of partitions in, Arrow record batches out.

Independent of options and Spark. A worker process runs many tasks one after another, so it keeps its
connections: to connect and to request metadata would take a task longer than reading. The connection of a
task that ends early (Spark took only the first rows, or it failed) is closed, since a response may be under
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.client.arrow import record_batches
from moldau.client.cluster import Cluster
from moldau.client.errors import OffsetOutOfRange, UnknownTopic
from pyspark_moldau.data_loss import LossReport
from pyspark_moldau.ranges import Range
from pyspark_moldau.worker_process import begins_work

if TYPE_CHECKING:
    import pyarrow

ROWS_MAX = 32_768
"""Rows of a record batch: enough that what a batch costs vanishes, some megabytes at usual sizes."""


class ReadSettings(NamedTuple):
    """A task's settings besides its ranges."""

    bootstrap_servers: str
    client_options: tuple[tuple[str, str], ...]
    read_committed: bool
    include_headers: bool
    fail_on_data_loss: bool


_kept: dict[tuple[object, ...], Cluster] = {}


def read_ranges(settings: ReadSettings, ranges: Sequence[Range]) -> Iterator[pyarrow.RecordBatch]:
    """The records of these ranges, in their order."""
    begins_work()
    key = (settings.bootstrap_servers, settings.client_options)
    cluster = _kept.pop(key, None) or Cluster(settings.bootstrap_servers, dict(settings.client_options))
    whole = False
    try:
        for one in ranges:
            yield from _read(cluster, settings, one)
        whole = True
    finally:
        if whole:
            _keep(key, cluster)
        else:
            cluster.close()


def _keep(key: tuple[object, ...], cluster: Cluster) -> None:
    if key in _kept:
        cluster.close()  # another reader in this process was done before
    else:
        _kept[key] = cluster


def _read(cluster: Cluster, settings: ReadSettings, one: Range) -> Iterator[pyarrow.RecordBatch]:
    loss = LossReport(settings.fail_on_data_loss)
    start = one.start
    looked_again = False
    while start < one.end:
        try:
            for batch in record_batches(
                cluster,
                one.topic,
                one.partition,
                start,
                one.end,
                read_committed=settings.read_committed,
                include_headers=settings.include_headers,
                rows_max=ROWS_MAX,
            ):
                start = batch.column("offset")[-1].as_py() + 1
                yield batch
        except OffsetOutOfRange as failure:
            loss.report(f"{failure}, and the query reads {one.start} to {one.end - 1}")
            if not start < failure.earliest < one.end:
                return
            start = failure.earliest
        except UnknownTopic as failure:
            if not looked_again and start == one.start:
                # A kept connection may remember a topic of this name that has been deleted since.
                looked_again = True
                cluster.forget_places(one.topic)
                continue
            loss.report(f"{failure}; it was deleted while offsets {one.start} to {one.end - 1} were read")
            return
        else:
            return
