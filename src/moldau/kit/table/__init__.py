"""A dictionary that lives in a compacted topic."""

from moldau.kit.table.asynchronous import AsyncTable
from moldau.kit.table.codecs import BYTES, JSON, TEXT, Codec
from moldau.kit.table.table import Change, Table

__all__ = ["BYTES", "JSON", "TEXT", "AsyncTable", "Change", "Codec", "Table"]
