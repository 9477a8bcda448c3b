"""Errors of the data source, each a sentence for the user."""

from __future__ import annotations

from moldau.client.errors import ClientError, OptionError

__all__ = ["ClientError", "DataLossError", "FencedError", "OptionError", "SinkError", "UndecodableError"]


class DataLossError(ClientError):
    """Records that the query had not read yet are deleted, and `failOnDataLoss` is true."""


class SinkError(ClientError):
    """A row cannot be written."""


class FencedError(SinkError):
    """A later driver writes with this query's transactional id; this one must stop."""


class UndecodableError(ClientError, ValueError):
    """A record was not written with the schema of its topic, and `badRecords` is fail."""
