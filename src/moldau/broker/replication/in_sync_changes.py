"""Sends the in-sync set changes that local leaders request (AlterPartition) to the controller in this
process.

Changes requested in one turn of the loop are batched: when a broker dies, every partition that it followed
asks at once. Any failure is reported to the role as an unknown outcome, and the role asks again (role.py).

Not here: which changes are accepted (controller/partitions.py), a controller on another broker (an
`InSyncChanges` of its own, peers.py).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.broker.controller.decision import Outcome
from moldau.broker.controller.partitions import AlterPartition
from moldau.broker.metadata.image import Image, PartitionState
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.role_outputs import AskInSync
from moldau.common.protocol.errors import ErrorCode

log = logging.getLogger("moldau.replication")

_AT_ONCE = 1000


class InSyncController(Protocol):
    """The part of the controller that changes in-sync sets."""

    async def alter_partitions(
        self, node_id: int, broker_epoch: int, asked: Sequence[AlterPartition]
    ) -> list[tuple[AlterPartition, Outcome, PartitionState | None]]:
        """Compare and set; an outcome for each, and the new state where there is one."""


class LocalInSyncChanges:
    """Asks the controller in this process."""

    def __init__(self, node_id: int, controller: InSyncController, image: Callable[[], Image]) -> None:
        self._node_id = node_id
        self._controller = controller
        self._image = image
        self._due: dict[Partition, AskInSync] = {}
        self._task: asyncio.Task[None] | None = None

    def ask(self, partition: Partition, asked: AskInSync) -> None:
        """Ask in a later turn; a newer change of the same partition takes the place of an older one."""
        self._due[partition] = asked
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._ask_all())

    async def _ask_all(self) -> None:
        try:
            while self._due:
                chosen = list(self._due.items())[:_AT_ONCE]
                for partition, _ in chosen:
                    del self._due[partition]
                await self._ask(chosen)
        finally:
            self._task = None

    async def _ask(self, chosen: Sequence[tuple[Partition, AskInSync]]) -> None:
        broker = self._image().brokers.get(self._node_id)
        alters = [
            AlterPartition(
                each.topic,
                each.index,
                asked.leader_epoch,
                asked.partition_epoch,
                asked.in_sync,
                asked.broker_epochs,
            )
            for each, asked in chosen
        ]
        answers: Sequence[tuple[int, PartitionState | None]]
        try:
            told = await self._controller.alter_partitions(
                self._node_id, -1 if broker is None else broker.broker_epoch, alters
            )
            answers = [(int(outcome.error_code), state) for _, outcome, state in told]
        except Exception as error:
            log.warning("the in-sync sets of %d partitions could not be changed: %s", len(chosen), error)
            answers = [(int(ErrorCode.UNKNOWN_SERVER_ERROR), None)] * len(chosen)
        for (partition, asked), (error_code, state) in zip(chosen, answers, strict=True):
            partition.in_sync_change_answered(asked, error_code, state)

    def stop(self) -> None:
        """The broker stops: nothing is asked any more."""
        self._due.clear()
        if self._task is not None:
            self._task.cancel()
