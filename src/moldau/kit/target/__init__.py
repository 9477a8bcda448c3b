"""Exactly once into a transactional store: the offsets lie beside the data, in the same transaction."""

from moldau.kit.target.loop import TargetLoop
from moldau.kit.target.sqlite import SqliteStore
from moldau.kit.target.store import Claim, OffsetRow, Store

__all__ = ["Claim", "OffsetRow", "SqliteStore", "Store", "TargetLoop"]
