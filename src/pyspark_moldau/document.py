"""docs/spark-source.md, from the tables of options: `python -m pyspark_moldau.document` prints it.

A test compares the file with what this gives, so that no option is without its documentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark_moldau.options import BATCH, STREAM, TABLE, UNWANTED_KAFKA_OPTIONS, Row
from pyspark_moldau.sink_options import TABLE as SINK_TABLE

HEAD = """\
# Topics in Spark

Made from the options by `python -m pyspark_moldau.document`.

```python
frame = (
    spark.readStream.format("moldau")  # or spark.read
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("subscribe", "flights")
    .option("groupId", "delays")  # lag, for every tool to see
    .load()
)
```

Where Moldau is installed, Spark finds the format by itself. Columns and options are those of Spark's own
Kafka connector, and so is the form of the offsets in a checkpoint: `format("kafka")` becomes
`format("moldau")`.

| column | type | |
| --- | --- | --- |
| `key`, `value` | binary | null where the record has none |
| `topic`, `partition`, `offset` | string, int, long | where the record is |
| `timestamp` | timestamp | in milliseconds, as in the topic |
| `timestampType` | int | 0: the producer's time; 1: the broker's |
| `headers` | `array<struct<key: string, value: binary>>` | with `includeHeaders=true`; null if none |

## What differs from Spark's connector

* An option that nobody knows is an error, with the name that was probably meant.
* `kafka.isolation.level` is `read_committed` unless said otherwise: what an aborted transaction wrote is not
  read.
* No consumer group assigns partitions. The group that `groupId` (or `kafka.group.id`) names is given the
  query's offsets after each micro-batch; a query without one commits none. Two queries need two groups.
* Partitions with few new records share a task, unless `minPartitions` or `maxRecordsPerPartition` is given.
* A topic that was deleted and made again counts as data loss: a running query knows it by the topic's id
  (brokers since Kafka 2.8), a restarted one only if the new topic is shorter than what was read; where it is
  longer, the query goes on at the old offset. With `failOnDataLoss=false` the new topic is read from its
  beginning.
* `subscribePattern` is a regular expression of Python, which differs from Java's in rarities.

## Options of reading

"""

TAIL = """
Other options that begin with `kafka.` are settings of the client: `kafka.security.protocol`, `kafka.sasl.*`,
`kafka.ssl.*`, `kafka.request.timeout.ms`, `kafka.fetch.max.bytes` and their like. These are refused:

"""

WRITING = """
## Writing

```python
query = (
    frame.writeStream.format("moldau")  # or frame.write, with mode("append")
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("topic", "delays-by-hour")
    .option("checkpointLocation", "checkpoints/delays-by-hour")
    .start()
)
```

| column | type | |
| --- | --- | --- |
| `value` | binary or string | the record's; null is a tombstone |
| `key` | binary or string | may be left out; chooses the partition as in Kafka's own clients |
| `topic` | string | where the option `topic` is not given |
| `partition` | int | the partition, instead of by key; null where the key is to choose |
| `headers` | `array<struct<key: string, value: binary>>` | may be left out |

A stream is written exactly once, without anything more
([why and how](decisions/exactly-once-sink.md)). What is read with `isolation.level=read_committed` has no
record of a micro-batch that failed. Output modes are append and complete; for update, which Spark refuses
for every sink written in Python, give `pyspark_moldau.micro_batches.micro_batch_writer(options)` to
`foreachBatch`.

The numbers of the micro-batches are kept in the consumer group `<transactionalId>-batches`.
`moldau groups describe` shows it as the ledger that it is; other tools may show a lag, which means nothing.
Leave it alone: without it, the next start may write a micro-batch twice.

"""

TROUBLE = """
Other options that begin with `kafka.` are settings of the client, as when reading.

## When Spark says

**`ModuleNotFoundError: No module named 'pyspark_moldau'`**, after
`An exception was thrown from the Python worker`: the tasks run in a Python that Moldau is not installed in.
Install it (`pip install 'moldau[spark]'`) on every worker machine, in the Python that `PYSPARK_PYTHON`
(`spark.pyspark.python`) names there, or send an environment that has it along with `spark.archives`.
`addPyFile` is not enough for sources and sinks of streams.

**`[DATA_SOURCE_NOT_FOUND] Failed to find the data source: moldau`**, caused by
`ClassNotFoundException: moldau.DefaultSource`: either Moldau is not installed in the driver's Python, or a
`writeStream` is started from another Python thread than the one that made the session. Spark looks for
formats in the thread's active session, which a new thread does not have. A DataFrame that is made of local
rows there sets it:

```python
def run():
    spark.createDataFrame([], "value string")  # makes the session this thread's own
    frame.writeStream.format("moldau").options(**options).start()


threading.Thread(target=run).start()
```
"""


def document() -> str:
    """Give the whole page."""
    refused = [f"* `kafka.{name}`: {reason}." for name, reason in UNWANTED_KAFKA_OPTIONS.items()]
    read, written = _table(TABLE), _table(SINK_TABLE)
    return HEAD + read + TAIL + "\n".join(refused) + "\n" + WRITING + written + TROUBLE


def _table(rows: Iterable[Row]) -> str:
    lines = ["| option | default | in | meaning |", "| --- | --- | --- | --- |"]
    for row in rows:
        default = f"`{row.default}`" if row.default and " " not in row.default else row.default
        where = {BATCH: "batches", STREAM: "streams"}[row.queries[0]] if len(row.queries) == 1 else "both"
        lines.append(f"| `{row.name}` | {default} | {where} | {row.meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
