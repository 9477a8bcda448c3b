"""Generates docs/spark-source.md from the option tables: `python -m pyspark_moldau.document` prints it.

A test compares the file with this output, so every option is documented.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark_moldau.option_rows import BATCH, STREAM, Row
from pyspark_moldau.options import TABLE, UNWANTED_KAFKA_OPTIONS
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

Where Moldau is installed, Spark finds the format by itself, in the Python that it works in. That is the
`python3` of the PATH, and not the one that runs your program, unless this line stands before the session is
made (or `PYSPARK_PYTHON` in the environment; an activated virtual environment does it too):

```python
os.environ["PYSPARK_PYTHON"] = sys.executable
```

`moldau.streams.session.spark_session("name")` makes a session in which all of that is done. Columns and
options are those of Spark's own Kafka connector, and so is the form of the offsets in a checkpoint:
`format("kafka")` becomes `format("moldau")`.

| column | type | |
| --- | --- | --- |
| `key`, `value` | binary; a struct by `key.format`, `value.format` | null where the record has none |
| `topic`, `partition`, `offset` | string, int, long | where the record is |
| `timestamp` | timestamp | in milliseconds, as in the topic |
| `timestampType` | int | 0: the producer's time; 1: the broker's |
| `headers` | `array<struct<key: string, value: binary>>` | with `includeHeaders=true`; null if none |
| `undecodedKey`, `undecodedValue` | binary | with `includeUndecoded=true`; null if decoded |
| `undecodedReason` | string | with them: why not |

## What differs from Spark's connector

* **A batch is written with `.mode("append")`**, in `foreachBatch` too:
  `frame.write.format("moldau").options(...).mode("append").save()`. Without a mode Spark means "fail if it
  exists", and passes that on only to formats that are written in Java or Scala; else it refuses with
  `UNSUPPORTED_DATA_SOURCE_SAVE_MODE`.
* **`kafka.acks` is `all`**; 0 and 1 are refused, because they lose records. Leave the option out.
* **`kafka.partitioner.class`** may name Kafka's own default only: no Java class runs here. To place records
  otherwise, add a column `partition`.
* **Triggers are those of micro-batches**: `processingTime` (the default: at once), `availableNow`, `once`.
  Spark refuses `continuous` and `realTime` for every source and sink written in Python. A micro-batch takes
  [a fraction of a second](benchmarks.md).
* **`lastProgress`** has no `metrics` of the source (offsets behind latest), and the `description` of source
  and sink is the name of a Java class: Spark asks sources in Python for neither. `latestOffset` and
  `endOffset` are there, and so is the difference:
  `pyspark_moldau.behind_latest.offsets_behind_latest(query.lastProgress.sources[0])` gives
  `minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest`, as the connector has
  them. Name queries with `queryName`, topics are in `endOffset`.
* Settings of Kafka's clients that have nothing to steer here (`kafka.linger.ms`, `kafka.max.poll.records`)
  are warned of once a process, and ignored.
* An unknown option is an error that names the most similar one.
* `kafka.isolation.level` is `read_committed` unless said otherwise: what an aborted transaction wrote is not
  read.
* No consumer group assigns partitions. The group that `groupId` (or `kafka.group.id`) names is given the
  query's offsets after each micro-batch; a query without one commits none. Two queries need two groups.
* Partitions with few new records share a task, unless `minPartitions` or `maxRecordsPerPartition` is given.
* A topic that was deleted and made again counts as data loss: a running query knows it by the topic's id
  (brokers since Kafka 2.8), a restarted one only if the new topic is shorter than what was read; where it is
  longer, the query goes on at the old offset. With `failOnDataLoss=false` the new topic is read from its
  beginning.
* `subscribePattern` is a regular expression of RE2, which takes time linear in a name's length. It has no
  look-ahead, look-behind or back-references: these are refused at the start. Elsewhere it differs from
  Java's in rarities.

## Options of reading

"""

TAIL = """
Other options that begin with `kafka.` are settings of the client: `kafka.security.protocol`, `kafka.sasl.*`,
`kafka.ssl.*`, `kafka.request.timeout.ms`, `kafka.fetch.max.bytes` and their like. Those of security have
Java's names or librdkafka's: PLAIN, SCRAM, OAUTHBEARER and GSSAPI (`kafka.sasl.jaas.config`), key stores in
PEM, PKCS12 and JKS, whose files are read by the driver and by every executor.

Spark shows options in the plans of SQL statements (`CREATE VIEW ... USING moldau OPTIONS (...)`), on its web
page and in its event log. It hides those whose name or value has `password`, `secret` or `token` in it;
`spark_session` has it hide keys in PEM, pass phrases and the registry's login as well. For a session that is
made otherwise: `spark.redaction.regex` with the value of `moldau.streams.session.REDACTED`.

These options are refused:

"""

WRITING = """
## Writing

```python
query = (
    frame.writeStream.format("moldau")  # or frame.write ... .mode("append").save()
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("topic", "delays-by-hour")
    .option("checkpointLocation", "checkpoints/delays-by-hour")
    .start()
)
```

| column | type | |
| --- | --- | --- |
| `value` | binary, string; a struct with `value.format` | the record's; null is a tombstone |
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

ALSO_WRITING = """
Other options that begin with `kafka.` are settings of the client, as when reading.
"""

TROUBLE = """
## When Spark says

**`[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "moldau" cannot be written in the "ErrorIfExists"
mode`**: add `.mode("append")` to the write. Nothing is ever overwritten.

**`ModuleNotFoundError: No module named 'pyspark_moldau'`**, after
`An exception was thrown from the Python worker`: the tasks run in a Python that Moldau is not installed in.
Install it (`pip install 'moldau[spark]'`) on every worker machine, in the Python that `PYSPARK_PYTHON`
(`spark.pyspark.python`) names there, or send an environment that has it along with `spark.archives`.
`addPyFile` is not enough for sources and sinks of streams.

**`[DATA_SOURCE_NOT_FOUND] Failed to find the data source: moldau`**, caused by `ClassNotFoundException:
moldau.DefaultSource`, has one of three reasons. The most likely: Spark works in another Python than your
program, which happens wherever a program is run as `.venv/bin/python job.py` (cron, systemd, an editor) and
another `python3` stands on the PATH. One line cures it, before the session is made:

```python
os.environ["PYSPARK_PYTHON"] = sys.executable
```

In a session that is there already, `moldau.streams.session.spark_session("name")` gives it back with the
right Python set (on this machine). Or Moldau is not installed in the driver's Python at all. Or a
`writeStream` is started from another Python thread than the one that made the session: Spark looks for
formats in the thread's active session, which a new thread does not have. A DataFrame that is made of local
rows there sets it:

```python
def run():
    spark.createDataFrame([], "value string")  # makes the session this thread's own
    frame.writeStream.format("moldau").options(**options).start()


threading.Thread(target=run).start()
```

**`Python worker failed to connect back`**, with a `SocketTimeoutException: Timed out while waiting for the
Python worker to connect back`: for every streaming source Spark starts a Python process and waits ten
seconds until it connects, which no setting changes. The process imports Spark, pandas and pyarrow first; on
a machine whose cores are busy, or from a slow disk, that takes longer. Start the query again when the
machine is quieter, or, better, let `moldau.streams.session.spark_session("name")` make the session (`moldau
streams run` and `app.run()` do): then these processes connect before they import anything, and are waited
for as long as it takes. What also makes it rarer: fewer queries started at once, more cores, a local disk
under the virtual environment. Where it happens on an idle machine too, the process has died: run `python -c
"import pyspark, pyarrow, pandas"` with the Python that `PYSPARK_PYTHON` names, and see what it says.
"""


SCHEMAS = """
## Records with a schema

Records in the wire format of Confluent's serializers, in Avro, JSON Schema or Protobuf:

```python
orders = (
    spark.readStream.format("moldau")
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("schema.registry.url", "http://localhost:8081")
    .option("subscribe", "orders")
    .option("value.format", "avro")
    .load()
    .select("value.*")
)
paid = orders.where("paid").selectExpr("cast(id AS string) AS key", "struct(*) AS value")
query = (
    paid.writeStream.format("moldau")
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("schema.registry.url", "http://localhost:8081")
    .option("topic", "paid-orders")
    .option("value.format", "avro")
    .option("checkpointLocation", "checkpoints/paid-orders")
    .start()
)
```

* **Reading**, a query has the columns of one schema: the newest of the subject when it starts, or a version.
  Records that were written with older or newer ones are read as this one's: fields without a value in the
  record have their default, and those that the schema does not have are left out. A restarted query takes the
  schema that is newest then.
* **Writing**, the schema of the struct is registered, with every field nullable, so that columns may come and
  go; or an existing schema is taken (`value.schema=latest`), and the struct has to fit it.
* Types are those of Spark's own `from_avro` and `from_protobuf`. A schema that is no record has one field,
  `value`; written, the struct's only field may have any name.
* The registry is asked on the driver, and the schema goes along with the tasks. A task asks only for schemas
  that it meets in records and has not seen. While the registry does not answer, such a task fails, and Spark
  tries it again.
* A record is bad if it has no schema in front, an unknown one, or bytes that do not fit it.
"""


def document() -> str:
    """Return the whole page."""
    refused = [f"* `kafka.{name}`: {reason}." for name, reason in UNWANTED_KAFKA_OPTIONS.items()]
    read, written = _table(TABLE), _table(SINK_TABLE)
    return (
        HEAD + read + TAIL + "\n".join(refused) + "\n" + WRITING + written + ALSO_WRITING + SCHEMAS + TROUBLE
    )


def _table(rows: Iterable[Row]) -> str:
    lines = ["| option | default | in | meaning |", "| --- | --- | --- | --- |"]
    for row in rows:
        default = f"`{row.default}`" if row.default and " " not in row.default else row.default
        where = {BATCH: "batches", STREAM: "streams"}[row.queries[0]] if len(row.queries) == 1 else "both"
        lines.append(f"| `{row.name}` | {default} | {where} | {row.meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
