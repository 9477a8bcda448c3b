"""Compaction: of every key the latest value is kept, and offsets never change."""
