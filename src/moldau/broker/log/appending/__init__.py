"""Batches on their way into a log: checked, given offsets, written."""
