"""Opening the log: lay the first nodes where there are none, read the image, check whose it is."""

import random
from typing import NamedTuple

from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper import foundation
from moldau.broker.metadata.zookeeper.data_folder import DataFolder
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import Head, LogReader
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Session


class Opened(NamedTuple):
    """What was found. `broker_epoch_base`: added to ZooKeeper's transaction ids."""

    image: Image
    head: Head
    broker_epoch_base: int


async def open_log(
    session: Session, layout: Layout, reader: LogReader, folder: DataFolder | None, source: random.Random
) -> Opened:
    """Open the cluster's log for the broker of `folder`, whose metadata an empty ensemble takes over.

    MetadataStoreError: the nodes are another system's or another cluster's, or cannot be read.
    """
    found = await foundation.find(session, layout)
    if found is None:
        brought = folder.brings() if folder is not None else None
        await foundation.lay(session, layout, source, brought or EMPTY_IMAGE)
        found = await foundation.find(session, layout)
        if found is None:
            raise MetadataStoreError(f"{layout.base} in ZooKeeper was removed while it was made")
    while True:
        try:
            # What is missing in this broker's logs is told by comparison: not with a member that lags behind.
            await session.sync(layout.head)
            image = await reader.load()
            head = await reader.head()
        except ConnectionAway:
            continue
        break
    if folder is not None:
        folder.check(image.cluster_id)
        if image.cluster_id:
            folder.joined(image.cluster_id)
    return Opened(image, head, found.broker_epoch_base)
