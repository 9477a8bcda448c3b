"""An app for test_cluster.py: the same file runs inside one process and on a cluster.

It has what a cluster makes difficult: a Python function that must reach the executors although it is in no
installed package, a shuffle, state, and rows written by tasks on different machines.
"""

from __future__ import annotations

import os

from pyspark.sql.functions import col, count, lit, timestamp_seconds, udf, window
from pyspark.sql.functions import sum as total
from pyspark.sql.types import LongType

from moldau.streams import App

RUN = os.environ.get("CLUSTER_APP_RUN", "local")
FACTOR = 3

app = App("cluster")
numbers = app.topic("numbers", schema="n long")


@udf(LongType())
def tripled(number: int) -> int:
    return FACTOR * number


@app.to(f"tripled-{RUN}", key="n", partitions=2)
def each():
    return numbers.stream().select("n", tripled("n").alias("tripled"))


@app.to(f"windows-{RUN}", key="start", partitions=2, mode="append")
def windows():
    return (
        numbers.stream()
        .withColumn("moment", timestamp_seconds("n"))
        .withWatermark("moment", "10 seconds")
        .groupBy(window("moment", "10 seconds"))
        .agg(count(lit(1)).alias("count"), total("n").alias("sum"))
        .select(col("window.start").cast("long").alias("start"), "count", "sum")
    )
