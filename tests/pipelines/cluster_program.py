"""A plain PySpark program for test_cluster.py and spark-submit: nothing of ours but the format's name.

spark-submit --master ... cluster_program.py HOST:PORT CHECKPOINT OUTPUT-TOPIC
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Read a topic as a batch and say how many rows it has; then as a stream to another topic."""
    address, checkpoint, target = sys.argv[1:]
    spark = SparkSession.builder.appName("plain").getOrCreate()
    options = {"kafka.bootstrap.servers": address, "subscribe": "numbers", "startingOffsets": "earliest"}
    rows = spark.read.format("moldau").options(**options).load()
    print(f"rows: {rows.count()}, master: {spark.sparkContext.master}")
    query = (
        spark.readStream.format("moldau")
        .options(**options)
        .load()
        .selectExpr("key", "upper(cast(value as string)) as value")
        .writeStream.format("moldau")
        .option("kafka.bootstrap.servers", address)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
