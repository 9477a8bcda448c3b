"""Topics as Spark tables and streams: `spark.readStream.format("moldau")`.

Spark finds this package by its name (`pyspark_...`) and takes `DefaultSource` from it: where Moldau is
installed, the format is there, with no jar and nothing to register. Columns and options are those of Spark's
own Kafka connector, so that `format("kafka")` becomes `format("moldau")` and nothing else changes.
"""

from pyspark_moldau.data_source import MoldauDataSource as DefaultSource

__all__ = ["DefaultSource"]
