"""A Spark driver that squares numbers and counts them by window, each once: what `round_pipeline.py` kills.

Two streaming queries read the topic `numbers` (JSON, {"n": 12}):

    squares    each number with its square, stateless
    windows    how many numbers there are in each window of WINDOW seconds, and their sum; a number is its own
               event time, and a window comes out when the watermark has passed it (append mode): once

It runs as a plain PySpark program (`python -m torture.pipeline plan`) or as an app (`moldau streams run
pipeline_app.py`), with the same two functions. A query that fails ends the program, and is not started again
by it: the round must know of it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBERS, SQUARES, WINDOWS = "numbers", "squares", "windows"
PARTITIONS = {NUMBERS: 3, SQUARES: 2, WINDOWS: 2}
WINDOW = 50
# No record may come later than this behind the newest: the producer has at most OUTSTANDING_MAX on their way.
LATENESS, OUTSTANDING_MAX = 1000, 300
SCHEMA = "n long"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
}


@dataclass(frozen=True)
class PipelinePlan:
    """What a driver is told on its command line."""

    address: str
    master: str
    folder: str
    delivery: str = "exactly-once"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> PipelinePlan:
        return PipelinePlan(**json.loads(text))


def squares(numbers: DataFrame) -> DataFrame:
    """Column n in, columns n and square out."""
    from pyspark.sql.functions import col

    return numbers.select("n", (col("n") * col("n")).alias("square"))


def windows(numbers: DataFrame) -> DataFrame:
    """Column n in, columns start, count and sum of each window out."""
    from pyspark.sql.functions import col, count, lit, timestamp_seconds, window
    from pyspark.sql.functions import sum as total

    return (
        numbers.withColumn("moment", timestamp_seconds("n"))
        .withWatermark("moment", f"{LATENESS} seconds")
        .groupBy(window("moment", f"{WINDOW} seconds"))
        .agg(count(lit(1)).alias("count"), total("n").alias("sum"))
        .select(col("window.start").cast("long").alias("start"), "count", "sum")
    )


def main() -> None:
    """Run both queries until the file `stop` appears in the folder."""
    plan = PipelinePlan.from_json(sys.argv[1])
    from moldau.streams.session import spark_session

    folder = Path(plan.folder)
    settings = {**SETTINGS, "spark.local.dir": str(folder / "spark")}
    session = spark_session("torture", master=plan.master, settings=settings)
    queries = [_start(session, plan, SQUARES), _start(session, plan, WINDOWS)]
    while not (folder / "stop").exists():
        for query in queries:
            problem = query.exception()
            if problem is not None:
                raise problem
            if not query.isActive:
                raise RuntimeError(f"query {query.name} has stopped by itself")
        time.sleep(0.1)
    for query in queries:
        query.stop()
    session.stop()


def _start(session: SparkSession, plan: PipelinePlan, target: str):  # type: ignore[no-untyped-def]
    from pyspark.sql.functions import col, from_json, struct, to_json

    options = {"kafka.bootstrap.servers": plan.address, "subscribe": NUMBERS, "startingOffsets": "earliest"}
    records = session.readStream.format("moldau").options(**options, groupId=f"torture-{target}").load()
    numbers = records.select(from_json(col("value").cast("string"), SCHEMA).alias("it")).select("it.n")
    rows = {SQUARES: squares, WINDOWS: windows}[target](numbers)
    name = rows.columns[0]
    written = rows.select(col(name).cast("string").alias("key"), to_json(struct("*")).alias("value"))
    return (
        written.writeStream.format("moldau")
        .queryName(target)
        .outputMode("append")
        .option("kafka.bootstrap.servers", plan.address)
        .option("topic", target)
        .option("delivery", plan.delivery)
        .option("checkpointLocation", str(Path(plan.folder) / "checkpoints" / target))
        .start()
    )


if __name__ == "__main__":
    main()
