"""Segments, indexes, checkpoints and log directories."""
