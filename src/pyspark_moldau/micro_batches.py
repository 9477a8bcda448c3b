"""Output mode `update` for topics: a function for `foreachBatch` that writes each micro-batch exactly once.

Spark refuses `outputMode("update")` for every sink written in Python, although a topic could take it: an
update is one more record with the same key. `foreachBatch` takes all modes, and knows the number of the
micro-batch, which is all that the exactly-once sink needs:

    write = micro_batch_writer({"kafka.bootstrap.servers": "...", "topic": "totals"})
    totals.writeStream.foreachBatch(write).outputMode("update").option("checkpointLocation", "...").start()

A query whose function writes to Kafka in several places gives each its own `transactionalId`: under one
id, the second write of a micro-batch is the repetition of the first, and is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark_moldau.sink_options import AT_LEAST_ONCE, EXACTLY_ONCE, parse_sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def micro_batch_writer(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`; `options` are those of the format moldau. OptionError."""
    chosen = {"delivery": EXACTLY_ONCE, **options}
    is_exactly_once = parse_sink_options(chosen, streaming=True).delivery != AT_LEAST_ONCE

    def write(frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.format("moldau").options(**chosen).mode("append")
        if is_exactly_once:
            writer = writer.option("batchId", str(batch_id))
        writer.save()

    return write
