"""The owner of a checkpoint, and its position.

    checkpoints/delays/                    the app
        driver.json                        the driver that runs it (lease.py)
        late_flights/                      a flow
            moldau.json                    the owner: app, flow, topics, cluster
            metadata offsets/ commits/ state/ sources/      Spark's own

Spark continues from any folder that looks like a checkpoint. From another flow's it fails far from the cause,
or, worse, works and skips records. So each folder has its owner's name, and a flow refuses the folder of
another app or flow, of other topics, or of another cluster.

Spark's files are read, never written: offsets/N is the planned range of micro-batch N (a line v1, a line of
metadata, a line for each source); commits/N exists once that is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from moldau.streams.errors import CheckpointRefused
from moldau.streams.folder import Folder

OWNER_FILE = "moldau.json"


@dataclass(frozen=True)
class Owner:
    """The owner of a checkpoint."""

    app: str
    flow: str
    streams: tuple[str, ...]
    tables: tuple[str, ...]
    target: str
    cluster_id: str
    bootstrap_servers: str = ""
    delivery: str = ""


@dataclass(frozen=True)
class Position:
    """The position of a checkpoint."""

    batch: int | None = None
    """The last micro-batch that is done; None: none is."""
    started_batch: int | None = None
    watermark_ms: int = 0
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The next offset to read of every partition, as of the last micro-batch done."""


def claim(folder: Folder, owner: Owner) -> None:
    """Make the folder the owner's. CheckpointRefused if it has another owner."""
    names = folder.names()
    text = folder.read(OWNER_FILE)
    if text is None:
        if "offsets" in names or "metadata" in names:
            raise CheckpointRefused(
                f"{folder} holds a checkpoint of something else, and no flow's of Moldau; flow {owner.flow} "
                "needs a folder of its own (--checkpoints)"
            )
    else:
        before = parse_owner(text, folder)
        _refuse_stranger(folder, before, owner)
        if before == owner:
            return
    folder.write(OWNER_FILE, json.dumps(asdict(owner), indent=2) + "\n")


def _refuse_stranger(folder: Folder, before: Owner, owner: Owner) -> None:
    advice = f"`moldau streams reset {owner.app} {owner.flow}` makes the flow start over"
    if (before.app, before.flow) != (owner.app, owner.flow):
        raise CheckpointRefused(
            f"the checkpoint in {folder} belongs to flow {before.flow} of app {before.app}, and not to flow "
            f"{owner.flow} of app {owner.app}: give it a folder of its own (--checkpoints)"
        )
    if before.streams != owner.streams:
        raise CheckpointRefused(
            f"the checkpoint in {folder} was made reading {', '.join(before.streams) or 'nothing'}, and flow "
            f"{owner.flow} reads {', '.join(owner.streams)} now: {advice}"
        )
    if before.cluster_id != owner.cluster_id:
        raise CheckpointRefused(
            f"the checkpoint in {folder} was made with another cluster ({before.bootstrap_servers}, id "
            f"{before.cluster_id}): its offsets are not valid at {owner.bootstrap_servers} "
            f"(id {owner.cluster_id}); {advice}"
        )


def parse_owner(text: str, folder: Folder) -> Owner:
    """Parse moldau.json. CheckpointRefused if it is malformed."""
    try:
        fields = json.loads(text)
        known = {name: fields[name] for name in Owner.__dataclass_fields__ if name in fields}
        known["streams"], known["tables"] = tuple(known["streams"]), tuple(known["tables"])
        return Owner(**known)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CheckpointRefused(
            f"{folder}/{OWNER_FILE} is damaged: the checkpoint's owner is unknown. `moldau streams "
            "reset` makes the flow start over"
        ) from None


def checkpoints_in(root: Folder) -> list[tuple[Folder, Owner]]:
    """The checkpoints of all flows under a folder, ordered by app and flow.

    One without a readable owner belongs to the app and flow that its folders are named after.
    """
    found = []
    for app in root.names():
        for flow in (root / app).names():
            folder = root / app / flow
            text = folder.read(OWNER_FILE)
            if text is None:
                continue
            try:
                found.append((folder, parse_owner(text, folder)))
            except CheckpointRefused:
                found.append((folder, Owner(app, flow, (), (), "", "")))
    return found


def position_of(folder: Folder) -> Position:
    """Read the position of a checkpoint."""
    started = _last_number(folder / "offsets")
    done = _last_number(folder / "commits")
    if done is None:
        return Position(None, started)
    lines = ((folder / "offsets").read(str(done)) or "").splitlines()
    documents: list[Any] = [_json(line) for line in lines[1:]]
    metadata = documents[0] if documents and isinstance(documents[0], dict) else {}
    offsets = {
        (topic, int(partition)): offset
        for source in documents[1:]
        if isinstance(source, dict)
        for topic, partitions in source.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if partition.isdigit() and isinstance(offset, int)
    }
    return Position(done, started, int(metadata.get("batchWatermarkMs", 0)), offsets)


def _last_number(folder: Folder) -> int | None:
    return max((int(name) for name in folder.names() if name.isdigit()), default=None)


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
