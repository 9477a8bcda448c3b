"""Moldau: Kafka, installable with pip. The tree, and the way a request falls down it, is in docs/ARCHITECTURE.md."""

__version__ = "0.1.0"
