"""Reads the logs, adopts topics that a new cluster finds in them, and tells the cluster what was lost.

Not a stage of its own: afterwards the log manager of the ground has its logs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from moldau.broker.log.files.run_marks import RunMarks
from moldau.broker.metadata.configs import topic_settings
from moldau.broker.metadata.store import MetadataStoreError, NoSession, OutcomeUnknown
from moldau.broker.stages.cluster import Cluster
from moldau.broker.stages.ground import Ground

log = logging.getLogger("moldau.node")

_LOOK_MS = 100


async def open_logs(ground: Ground, cluster: Cluster) -> None:
    """Recover and open every log. StorageError, OSError."""
    host, logs, image = ground.host, ground.logs, ground.metadata.image
    loading: asyncio.Future[None] | None = None

    async def close_logs() -> None:
        if loading is not None:
            # A start that was called off: the thread goes on, and holds the folders until it is done.
            await asyncio.wait([loading])
        since = cluster.controller.this_broker.presence.complete_since
        logs.close(clean=ground.stops.clean, broker_epoch=since)

    ground.stops.add("logs", close_logs)
    if cluster.in_cluster:
        _mark_runs(ground, cluster)
    logs.settings = ground.settings.now
    loading = host.loop.run_in_executor(
        host.workers,
        lambda: logs.startup.load(
            image.cluster_id,
            ground.node_id,
            lambda topic: topic_settings(image, ground.static.broker, topic),
            lambda topic, index: image.is_sole_copy(topic, index, ground.node_id),
        ),
    )
    await asyncio.shield(loading)


def _mark_runs(ground: Ground, cluster: Cluster) -> None:
    """The next start must tell what an unclean stop has taken, if others rely on the logs here."""
    host, directories = ground.host, ground.logs.directories
    forced = ground.static.broker.moldau_durability == "group"
    directories.run_marks = RunMarks(host.files, host.boot_id(), forced)

    async def registered(complete_since: Sequence[int]) -> None:
        await host.loop.run_in_executor(host.workers, lambda: directories.mark_running(complete_since))

    cluster.controller.this_broker.call_when_registered(registered)


async def adopt_topics(ground: Ground, cluster: Cluster) -> None:
    """Adopt topics found in the log directories of a new cluster: of Kafka's, or after the metadata was
    lost.
    """
    this_broker = cluster.controller.this_broker
    if this_broker.cluster_is_new and len(ground.logs):
        from moldau.broker.replication.adoption import found_topics, next_producer_id

        found = found_topics(ground.logs, ground.host.random)
        await this_broker.adopt_topics(found, next_producer_id(ground.logs))


async def report_losses(ground: Ground, cluster: Cluster) -> None:
    """Before this broker counts as back: replicas that are less than the cluster takes them for."""
    if len(ground.metadata.image.brokers) < 2:
        return
    from moldau.broker.replication.losses import find_losses

    await _wait_for_node_id(ground)
    steps = find_losses(ground.metadata.image, ground.node_id, ground.logs)
    found = await ground.lane.slices().run(steps)
    ground.logs.startup.missing.withhold(sorted(found.withheld))
    this_broker = cluster.controller.this_broker
    await _until_written(ground, lambda: this_broker.replicas_lost(found.lost, found.offline))


async def _until_written(ground: Ground, write: Callable[[], Awaitable[None]]) -> None:
    """Make a change that may be made twice, again when the answer of the store is lost; for as long as a
    broker may take to register. MetadataStoreError.
    """
    deadline_ms = _deadline_ms(ground)
    while True:
        try:
            await write()
            return
        except (NoSession, OutcomeUnknown) as error:
            if ground.host.clock.monotonic_ms() >= deadline_ms:
                raise MetadataStoreError(
                    f"what has become of the logs here could not be told to the other brokers: {error}"
                ) from error
            log.warning("the metadata store's answer was lost; asking again: %s", error)
        await _pause(ground)


async def _wait_for_node_id(ground: Ground) -> None:
    """Wait while a broker with other log directories is registered under this id: what these here lack
    says nothing about its replicas. It is another broker, or this one before its disks were replaced,
    whose session ends soon. MetadataStoreError when it lives on.
    """
    node_id, ours, warned = ground.node_id, ground.logs.directories.ids, False
    deadline_ms = _deadline_ms(ground)
    while True:
        held = ground.metadata.image.brokers.get(node_id)
        if held is None or held.fenced or any(each in held.directories for each in ours):
            return
        if ground.host.clock.monotonic_ms() >= deadline_ms:
            raise MetadataStoreError(
                f"a broker with node.id={node_id} and other log directories is registered; give "
                "each broker its own"
            )
        if not warned:
            log.warning(
                "a broker with node.id=%d and other log directories is registered: another broker, or "
                "this one before its disks were replaced; waiting until it is free",
                node_id,
            )
            warned = True
        await _pause(ground)


def _deadline_ms(ground: Ground) -> float:
    return ground.host.clock.monotonic_ms() + ground.settings.now.initial_broker_registration_timeout_ms


async def _pause(ground: Ground) -> None:
    over = asyncio.Event()
    ground.host.timers.call_later(_LOOK_MS, over.set)
    await over.wait()
