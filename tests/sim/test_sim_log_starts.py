"""Records that were deleted while a replica was away do not come back with it."""

from __future__ import annotations

import asyncio

from sim_world import World, simulate
from test_sim_replication import Trio

from moldau.broker.metadata.image import Image
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

PLACE = ("t", 0)


def test_who_was_away_while_records_were_deleted_is_in_sync_only_without_them(seed: int) -> None:
    """It was at the log's end, so its first fetch let it in, and a reassignment let it lead in the same step
    (seed 132): with all that had been deleted.
    """

    async def scenario(world: World) -> None:
        trio = Trio(world, 3)
        await trio.start()
        await trio.create(min_insync_replicas="1")
        await trio.produce(await trio.begin("p"), 10)
        await world.until(lambda: not trio.behind())
        away = trio.followers()[0]
        trio.machine(away).kill()
        await world.until(lambda: away not in trio.in_sync(PLACE))
        await world.sleep_ms(5000)  # its session is over
        admin = trio.client("deletes")
        row = DeleteRecordsPartition(partition_index=0, offset=5)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[row])])
        request.timeout_ms = 10_000
        answer = await admin.spawn(admin.leader(PLACE).persist(request, 2))
        assert not answer.topics[0].partitions[0].error_code
        begins_at: list[int] = []
        told = trio.ensemble.on_append

        def appended(before: Image, after: Image) -> None:
            told(before, after)
            if away not in before.topics["t"].partitions[0].isr and away in trio.in_sync(PLACE):
                begins_at.append(trio.held(away).log.log_start_offset)

        trio.ensemble.on_append = appended
        await asyncio.wait_for(trio.machine(away).start(), 30)
        await trio.whole()
        assert begins_at == [5]

    simulate(scenario, seed)
