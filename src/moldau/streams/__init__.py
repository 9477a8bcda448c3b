"""Data pipelines on Spark: topics in, topics and tables out.

A Kafka Streams job, done by Spark: it reads topics, transforms, and writes topics or tables, on a Spark
session inside the program's own process by default and, unchanged, on a Spark cluster. This package
reaches a broker as anybody's program does, through a client (`moldau.client`, `pyspark_moldau`).

docs/streams.md is the tutorial. `App` (app.py) is where the code begins; runner.py is where an app runs.
Importing this needs no PySpark; running does, and says so.
"""

from moldau.streams.app import App
from moldau.streams.errors import AppError, CheckpointRefused, Fenced, StreamsError
from moldau.streams.flow import Flow
from moldau.streams.topic import Topic

__all__ = ["App", "AppError", "CheckpointRefused", "Fenced", "Flow", "StreamsError", "Topic"]
