"""A Spark driver that decodes the same records in three ways, and prints rows a second as a line of JSON.

    python -m bench.schemas_spark spark|moldau PARQUET JAR...

    raw       the bytes as they are
    spark     Spark's from_avro
    moldau    our decoder, in Python workers by mapInArrow

One core; records come from a file, results go nowhere.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.schemas_data import AVRO, EVOLVED

RUNS = 4


def main() -> None:
    """Each way several times; the best counts, since the first pays for the JVM's warm-up."""
    from pyspark.sql import SparkSession
    from pyspark.sql.avro.functions import from_avro

    os.environ["PYSPARK_PYTHON"] = sys.executable
    decoder, path, *jars = sys.argv[1:]
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    records = session.read.parquet(path)
    rows = records.count()
    options = {"avroSchema": json.dumps(EVOLVED)}
    ways: dict[str, Callable[[], Any]] = {
        "raw": lambda: records.select("payload"),
        "spark": lambda: records.select(from_avro("payload", json.dumps(AVRO)).alias("row")).select("row.*"),
        "spark_evolved": lambda: records.select(
            from_avro("payload", json.dumps(AVRO), options).alias("row")
        ).select("row.*"),
        "moldau": lambda: _decoded(records, AVRO),
        "moldau_evolved": lambda: _decoded(records, EVOLVED),
    }
    best: dict[str, float] = {}
    for name, way in ways.items():
        if name not in ("raw", decoder, f"{decoder}_evolved"):
            continue
        for _ in range(RUNS):
            began = time.perf_counter()
            way().write.format("noop").mode("overwrite").save()
            best[name] = max(best.get(name, 0.0), rows / (time.perf_counter() - began))
    session.stop()
    print(json.dumps(best))


def _decoded(records: Any, reader: dict[str, Any]) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    from moldau.schemas.columns import spark_types

    def decode(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from moldau.schemas.columns import Decoder

        writer = _parsed(AVRO)
        decoder = Decoder(_parsed(reader), lambda schema_id: writer)
        for batch in batches:
            rows, _ = decoder.decode(batch.column("value"))
            yield pa.RecordBatch.from_struct_array(rows)

    return records.select("value").mapInArrow(decode, from_arrow_schema(spark_types(_parsed(reader))))


def _parsed(schema: dict[str, Any]) -> Any:
    from moldau.schemas.languages import parse
    from moldau.schemas.schema import SchemaText, SchemaType

    return parse(SchemaText(SchemaType.AVRO, json.dumps(schema)))


if __name__ == "__main__":
    main()
