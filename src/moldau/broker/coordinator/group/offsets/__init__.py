"""Committed offsets of all groups of a shard, those of open transactions too (KIP-98, KIP-447)."""
