"""Names of topics and schemas (`PREFIX.schema.table`), adjusted to what Avro or a topic can be called."""

from __future__ import annotations

import re


def topic_name(*parts: str) -> str:
    """The topic of a table; characters that a topic cannot have become `_`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", ".".join(parts))


def adjusted(name: str, mode: str) -> str:
    """`schema.name.adjustment.mode` and `field.name.adjustment.mode`: none, avro, avro_unicode."""
    if mode == "none":
        return name

    def replaced(found: re.Match[str]) -> str:
        return "_" if mode == "avro" else "".join(f"_u{ord(each):04x}" for each in found.group())

    parts = [re.sub(r"[^A-Za-z0-9_]", replaced, part) for part in name.split(".")]
    return ".".join(f"_{part}" if part[:1].isdigit() else part for part in parts)
