"""Data pipelines on Spark: topics in, topics and tables out.

A Kafka Streams job, done by Spark: it reads topics, transforms, and writes topics or tables, on a Spark
session inside the program's own process by default and, unchanged, on a Spark cluster. This package
reaches a broker as anybody's program does, through a client (`moldau.client`, `pyspark_moldau`).
"""
