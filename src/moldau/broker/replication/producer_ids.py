"""Producer ids for idempotent producers: blocks from the metadata log, single ids from a block.

A block is recorded in the metadata before its first id is used, so no id is given twice; the unused rest of a
block is lost when the broker stops (KIP-730).
"""

import asyncio
from typing import Protocol


class BlockSource(Protocol):
    """The controller."""

    async def allocate_producer_ids(self) -> range:
        """Allocate a block of ids that was never allocated before."""


class ProducerIds:
    """Gives each caller an id of its own."""

    def __init__(self, source: BlockSource) -> None:
        self._source = source
        self._block = iter(range(0))
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """An id that was never given before."""
        while True:
            producer_id = next(self._block, None)
            if producer_id is not None:
                return producer_id
            async with self._refill:
                producer_id = next(self._block, None)
                if producer_id is not None:
                    return producer_id
                self._block = iter(await self._source.allocate_producer_ids())
