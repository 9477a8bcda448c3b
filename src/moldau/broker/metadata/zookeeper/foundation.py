"""A new ensemble's first nodes: what counts is made in one transaction, all or nothing.

    /moldau (empty), /moldau/parts, parts of the snapshot       made first; without the rest they mean nothing
    /moldau (format), head, snapshot, /brokers, /cluster, ...   one transaction

A cluster that was a single broker with an embedded store brings its image: the first snapshot is that image,
the log goes on from its version, broker epochs and controller epochs from its own. A crash in between leaves
parts that nothing refers to, and the next start begins again.
"""

import contextlib
import json
import random
from collections.abc import Sequence
from typing import NamedTuple

from kazoo import exceptions as zk
from kazoo.client import TransactionRequest

from moldau.broker.metadata.codec import to_json
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.discovery import cluster_json
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.payload import Packed, encode_snapshot, fresh_id, pack
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Failure, Session

FORMAT = 1


class Foundation(NamedTuple):
    """What was laid down with the first nodes. `broker_epoch_base`: added to ZooKeeper's transaction ids."""

    broker_epoch_base: int


async def find(session: Session, layout: Layout) -> Foundation | None:
    """What another start has laid down; None on a new ensemble.

    MetadataStoreError: the nodes are another system's, or of a newer format, or may not be read.
    """
    while True:
        try:
            found = await session.find(layout.base)
            if found is None and await session.stat(layout.brokers) is not None:
                # Another broker of this cluster may have made both since the first look.
                found = await session.find(layout.base)
                if found is None:
                    raise MetadataStoreError(
                        f"another system (Apache Kafka?) keeps its metadata at {layout.brokers} in "
                        "ZooKeeper; give this cluster a chroot of its own: "
                        f"zookeeper.connect={session.options.hosts}/moldau"
                    )
        except ConnectionAway:
            continue
        except zk.NoAuthError as error:
            raise not_authorized(layout.base) from error
        break
    if found is None or not found[0]:
        return None
    value = json.loads(found[0])
    if value["format"] > FORMAT:
        raise MetadataStoreError(
            f"the metadata at {layout.base} in ZooKeeper has format {value['format']}, and this version of "
            f"Moldau knows formats up to {FORMAT}: use the version that wrote it, or a newer one"
        )
    return Foundation(value["broker_epoch_base"])


async def lay(session: Session, layout: Layout, source: random.Random, image: Image = EMPTY_IMAGE) -> None:
    """Make the first nodes, with `image` as the first snapshot. Another start may be faster: who cares whose
    image it is looks at the cluster's id afterwards. MetadataStoreError: another system is there.
    """
    packed = pack(fresh_id(source), encode_snapshot(image), image.version)
    while True:
        try:
            await _make(session, [*layout.chroot_steps(), layout.base, layout.parts])
            for number, data in enumerate(packed.parts):
                await _make(session, [layout.part(packed.payload_id, number)], data)
            await session.transaction(lambda request: _fill(request, session, layout, packed, image))
        except ConnectionAway:
            continue
        except zk.NoAuthError as error:
            raise not_authorized(layout.base) from error
        except Failure as failure:
            if isinstance(failure.cause, zk.NoAuthError):
                raise not_authorized(layout.base) from failure.cause
            if not isinstance(failure.cause, (zk.BadVersionError, zk.NodeExistsError)):
                raise failure.cause from None
        return


def _fill(
    request: TransactionRequest, session: Session, layout: Layout, packed: Packed, image: Image
) -> None:
    epochs = [image.version, *(broker.broker_epoch for broker in image.brokers.values())]
    base = max(epochs) if image.brokers else 0
    request.set_data(layout.base, to_json({"format": FORMAT, "broker_epoch_base": base}), 0)
    for number in range(len(packed.parts)):
        request.check(layout.part(packed.payload_id, number), 0)
    request.create(layout.head, to_json({"version": image.version}))
    request.create(layout.snapshot, packed.data)
    request.create(layout.entries)
    request.create(layout.live)
    public = session.public_acl()
    for path in (layout.brokers, layout.ids, layout.cluster):
        request.create(path, acl=public)
    request.create(layout.controller_epoch, str(image.controller_epoch).encode(), acl=public)
    if image.cluster_id:
        request.create(layout.cluster_id, cluster_json(image.cluster_id), acl=public)


async def _make(session: Session, paths: Sequence[str], data: bytes = b"") -> None:
    """Make these nodes where they are missing (the chroot as well, as Kafka does)."""
    for path in paths:
        with contextlib.suppress(zk.NodeExistsError):
            await session.create(path, data)


def not_authorized(path: str) -> MetadataStoreError:
    """ZooKeeper refuses."""
    return MetadataStoreError(
        f"ZooKeeper does not let this broker use {path}: it was made with other credentials; set "
        "moldau.zookeeper.user and moldau.zookeeper.password to those of the cluster"
    )
