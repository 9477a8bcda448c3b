"""Which feature levels each release of Kafka starts a new cluster with: for kafka-features and
kafka-storage.
"""

from __future__ import annotations

from moldau.tools.kafka.problems import ToolError

_NAMES = (
    "metadata.version",
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
_VERSIONS = [
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
    "4.0-IV2",
    "4.0-IV3",
    "4.1-IV0",
    "4.1-IV1",
    "4.2-IV0",
    "4.2-IV1",
    "4.3-IV0",
    "4.4-IV0",
]
_FIRST_LEVEL = 7
_STABLE = "4.3-IV0"
_SINCE = {
    "kraft.version": (("3.9-IV0", 1),),
    "transaction.version": (("4.0-IV2", 2),),
    "group.version": (("4.0-IV0", 1),),
    "eligible.leader.replicas.version": (("4.1-IV0", 1),),
    "share.version": (("4.2-IV0", 1),),
    "streams.version": (("4.2-IV1", 1),),
}
KNOWN_FEATURES = {
    "kraft.version": 1,
    "transaction.version": 2,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
"""Features and their highest levels."""
DEPENDENCIES = {("eligible.leader.replicas.version", 1): "metadata.version=23 (4.0-IV1)"}


def known_versions() -> list[str]:
    """All names of releases: 4.0-IV3, and 4.0 for the last of them."""
    return [*_VERSIONS, *dict.fromkeys(each.partition("-")[0] for each in _VERSIONS)]


def level_name(level: int) -> str:
    """The release whose level of metadata.version this is; the number, if none is known."""
    index = level - _FIRST_LEVEL
    return _VERSIONS[index] if 0 <= index < len(_VERSIONS) else str(level)


def features_of(release: str | None) -> dict[str, int]:
    """Feature levels of a release (None: the newest stable one). ToolError for an unknown one."""
    wanted = release or _STABLE
    found = [each for each in _VERSIONS if each == wanted or each.startswith(f"{wanted}-")]
    if not found:
        raise ToolError(
            f"Unknown metadata.version '{wanted}'. Supported metadata.version are: {', '.join(_VERSIONS)}"
        )
    index = _VERSIONS.index(found[-1])
    levels = dict.fromkeys(_NAMES, 0)
    levels["metadata.version"] = _FIRST_LEVEL + index
    for name, steps in _SINCE.items():
        for since, level in steps:
            if index >= _VERSIONS.index(since):
                levels[name] = level
    return levels
