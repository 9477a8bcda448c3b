"""Every tool of Kafka's bin folder that Moldau serves, and its module.

The names are those of Kafka's scripts without `.sh`; both forms are understood, and `moldau kafka-home` lays
out both.
"""

from __future__ import annotations

_HERE = "moldau.cli.kafka"

TOOLS: dict[str, str] = {
    "kafka-topics": f"{_HERE}.topics",
}
"""Name -> module."""


def bare(name: str) -> str:
    """Return the name of a tool from the path that it was called by."""
    return name.rpartition("/")[2].removesuffix(".sh")
