"""Hands each new image to the parts of a running broker, in an order: settings, then partitions, then
coordinators, which depend on them.
"""

import asyncio
from collections.abc import Sequence

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.configs import effective_broker_settings
from moldau.broker.metadata.image import Image
from moldau.broker.stages.addresses import Addresses
from moldau.broker.stages.cluster import Cluster
from moldau.broker.stages.coordination import Coordination
from moldau.broker.stages.ground import Ground
from moldau.broker.stages.mirroring import LateMirroring
from moldau.broker.stages.replication import Replication
from moldau.broker.stages.serving import Serving, follow_quotas


class MetadataChanges:
    """Subscribes to the metadata."""

    def __init__(
        self,
        ground: Ground,
        addresses: Addresses,
        cluster: Cluster,
        replication: Replication,
        coordination: Coordination,
        serving: Serving,
        mirroring: LateMirroring,
    ) -> None:
        self._ground = ground
        self._addresses = addresses
        self._cluster = cluster
        self._replication = replication
        self._coordinators = coordination.coordinators
        self._broker = serving.broker
        self._mirroring = mirroring

    def apply(self, old: Image, new: Image, changes: Sequence[Change]) -> asyncio.Future[None] | None:
        """Apply new metadata; None, or a future that is done when all parts are in step."""
        ground, replication = self._ground, self._replication
        if old.configs is not new.configs:
            settings = effective_broker_settings(new, ground.static.broker, ground.node_id)
            ground.settings.now = self._broker.settings = ground.logs.settings = settings
            self._addresses.listeners.change_limits(settings)
        if old.quotas is not new.quotas:
            follow_quotas(ground, self._addresses, self._broker, old, new, changes)
        replication.peers.image_changed(new)
        replication.fetcher.image_changed(new)
        self._cluster.controller.this_broker.log_ends.heard(new, changes)
        self._coordinators.resign(new)  # at once; what they have begun to lead waits for its partition
        for part in self._cluster.elsewhere:
            part.image_changed(new)
        pending = replication.replicas.apply(old, new, changes)
        if pending is None:
            self._coordinators.image_changed(new)
            self._mirroring.image_changed(new)
            return None
        return self._coordinators_follow(pending, new)

    def _coordinators_follow(self, partitions: asyncio.Future[None], new: Image) -> asyncio.Future[None]:
        """Done when the coordinators are in step too; fails if one does, so that it is told again."""
        in_step: asyncio.Future[None] = self._ground.host.loop.create_future()

        def partitions_applied(_: asyncio.Future[None]) -> None:
            try:
                self._coordinators.image_changed(new)
                self._mirroring.image_changed(new)
            except Exception as error:
                in_step.set_exception(error)
            else:
                in_step.set_result(None)

        partitions.add_done_callback(partitions_applied)
        return in_step
