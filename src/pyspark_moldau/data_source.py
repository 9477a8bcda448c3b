"""The entry point that Spark knows: from options to a schema, to readers and to writers."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class MoldauDataSource(DataSource):
    """Topics of a Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "moldau"
