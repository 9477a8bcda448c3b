"""Data pipelines on Spark: topics in, topics and tables out.

A Kafka Streams job, run by Spark: it reads topics, transforms, and writes topics or tables, in a Spark
session inside the program's own process by default and, unchanged, on a Spark cluster. This package reaches a
broker through a client only (`moldau.client`, `pyspark_moldau`).

docs/streams.md is the tutorial. Start at `App` (app.py); runner.py runs an app. Importing this package needs
no PySpark; running does, and a missing PySpark is reported then.
"""

from moldau.streams.app import App
from moldau.streams.errors import AppError, CheckpointRefused, Fenced, StreamsError
from moldau.streams.flow import Flow
from moldau.streams.topic import Topic

__all__ = ["App", "AppError", "CheckpointRefused", "Fenced", "Flow", "StreamsError", "Topic"]
