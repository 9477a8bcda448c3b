"""docs/spark-source.md, from the table of options: `python -m pyspark_moldau.document` prints it.

A test compares the file with what this gives, so that no option is without its documentation.
"""

from __future__ import annotations

from pyspark_moldau.options import BATCH, STREAM, TABLE, UNWANTED_KAFKA_OPTIONS

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

## Options

"""

TAIL = """
Other options that begin with `kafka.` are settings of the client: `kafka.security.protocol`, `kafka.sasl.*`,
`kafka.ssl.*`, `kafka.request.timeout.ms`, `kafka.fetch.max.bytes` and their like. These are refused:

"""


def document() -> str:
    """Give the whole page."""
    lines = ["| option | default | in | meaning |", "| --- | --- | --- | --- |"]
    for row in TABLE:
        default = f"`{row.default}`" if row.default and " " not in row.default else row.default
        where = {BATCH: "batches", STREAM: "streams"}[row.queries[0]] if len(row.queries) == 1 else "both"
        lines.append(f"| `{row.name}` | {default} | {where} | {row.meaning.replace('|', chr(92) + '|')} |")
    refused = [f"* `kafka.{name}`: {reason}." for name, reason in UNWANTED_KAFKA_OPTIONS.items()]
    return HEAD + "\n".join(lines) + "\n" + TAIL + "\n".join(refused) + "\n"


if __name__ == "__main__":
    print(document(), end="")
