"""What can go wrong between Spark and a topic, each with a sentence for whoever runs the query."""

from __future__ import annotations

from moldau.client.errors import ClientError, OptionError

__all__ = ["ClientError", "DataLossError", "FencedError", "OptionError", "SinkError"]


class DataLossError(ClientError):
    """Records that the query still had to read are gone, and `failOnDataLoss` is true."""


class SinkError(ClientError):
    """A row cannot be written as it is."""


class FencedError(SinkError):
    """A later driver writes with this query's transactional id; this one must stop."""
