"""Moldau: Kafka, installable with pip. docs/ARCHITECTURE.md shows how a request falls down the tree."""

__version__ = "0.1.0"
