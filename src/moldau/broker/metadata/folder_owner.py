"""A mark in a data folder: its broker belongs to a cluster whose metadata is in ZooKeeper.

    moldau-cluster.json    {"cluster_id": "...", "zookeeper": "host:2181/moldau", "state": "joined"}

It keeps a broker from starting with other metadata than that of its data: with the embedded store, which
stands where it was before the cluster moved out of it, or on an ensemble that has lost everything. State
`moving` is written before the metadata moves, `joined` once it is there.
"""

import json
from typing import NamedTuple

from moldau.broker.metadata.store import MetadataStoreError
from moldau.common.core.files import Files, read_file, write_atomically

FILE_NAME = "moldau-cluster.json"
MOVING = "moving"
JOINED = "joined"


class Owner(NamedTuple):
    """The cluster, and `zookeeper.connect` as it was then."""

    cluster_id: str
    zookeeper: str
    state: str


def read_owner(files: Files, folder: str) -> Owner | None:
    """Who a data folder belongs to; None without a mark. MetadataStoreError: the mark cannot be read."""
    path = f"{folder}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        value = json.loads(read_file(files, path))
        return Owner(value["cluster_id"], value["zookeeper"], value["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MetadataStoreError(f"{path} cannot be read: {error}") from error


def write_owner(files: Files, folder: str, owner: Owner) -> None:
    """Write the mark, durably."""
    write_atomically(files, f"{folder}/{FILE_NAME}", json.dumps(owner._asdict()).encode() + b"\n")


def refuse_without_zookeeper(files: Files, folder: str) -> None:
    """MetadataStoreError if the metadata of this folder's broker is in ZooKeeper."""
    owner = read_owner(files, folder)
    if owner is not None:
        raise MetadataStoreError(
            f"the broker of {folder} belongs to cluster {owner.cluster_id}, whose metadata is in ZooKeeper: "
            f"set zookeeper.connect={owner.zookeeper}, or give this broker another data folder"
        )
