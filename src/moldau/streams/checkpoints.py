"""Whose a checkpoint is, and how far it has come.

    checkpoints/delays/                    the app
        driver.json                        who runs it (lease.py)
        late_flights/                      a flow
            moldau.json                    whose this is: app, flow, topics, cluster
            metadata offsets/ commits/ state/ sources/      Spark's own

Spark goes on from any folder that looks like a checkpoint. With another flow's it fails far from the cause,
or, worse, works and skips what it never read. So each folder says whose it is, and a flow refuses one that
is not its own: another app's or flow's, one of other topics, or of another cluster, whose offsets mean
nothing here.

Spark's files are read, never written: offsets/N is what micro-batch N was to read (a line v1, a line of
metadata, a line for each source), commits/N exists once that is done.
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
    """Whose a checkpoint is."""

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
    """How far a checkpoint has come."""

    batch: int | None = None
    """The last micro-batch that is done; None: none is."""
    started_batch: int | None = None
    watermark_ms: int = 0
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The next offset to read of every partition, as of the last micro-batch done."""


def claim(folder: Folder, owner: Owner) -> None:
    """Make the folder the owner's; CheckpointRefused if it is somebody else's."""
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
    advice = f"`moldau streams reset {owner.app} {owner.flow}` lets the flow begin anew"
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
            f"{before.cluster_id}): its offsets mean nothing at {owner.bootstrap_servers} "
            f"(id {owner.cluster_id}); {advice}"
        )


def parse_owner(text: str, folder: Folder) -> Owner:
    """What moldau.json says; CheckpointRefused if that is nothing."""
    try:
        fields = json.loads(text)
        known = {name: fields[name] for name in Owner.__dataclass_fields__ if name in fields}
        known["streams"], known["tables"] = tuple(known["streams"]), tuple(known["tables"])
        return Owner(**known)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CheckpointRefused(
            f"{folder}/{OWNER_FILE} is damaged: it does not say whose the checkpoint is. `moldau streams "
            "reset` lets the flow begin anew"
        ) from None


def checkpoints_in(root: Folder) -> list[tuple[Folder, Owner]]:
    """Every flow's checkpoint under a folder, in the order of apps and flows.

    One whose owner cannot be read belongs to the app and flow that its folder is called after.
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
    """How far the checkpoint has come."""
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
