"""What DeleteRecords was answered for holds after a crash: the new beginning is written down before."""

import errno
import os
import shutil

import pytest
from data_plane_world import Client, on_a_node, partition_of, produce_frame
from jumping_time import until

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


async def deleted(node, offset):
    """Delete the records of a-0 before the offset; the answer's one row."""
    row = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="a", partitions=[row])], timeout_ms=10_000)
    client = Client(node)
    client.feed(frame_request(21, 2, 1, "load", request.encode(2)))
    await until(lambda: client.transport.sent)
    return DeleteRecordsResponse.decode(bytes(client.transport.sent[9:]), 2).topics[0].partitions[0]


@pytest.fixture
def crashed(tmp_path):
    """The folder as it was when the answer came."""
    folder, copy = tmp_path / "data", tmp_path / "copy"

    async def scene(node):
        client = Client(node)
        for _ in range(10):
            client.feed(produce_frame("a", 10))
        await until(lambda: len(client.answers()) == 10)
        for offset in (3, 7):
            assert (await deleted(node, offset)).low_watermark == offset
        shutil.copytree(folder, copy)

    on_a_node(scene, folder)
    return copy


def test_the_new_beginning_survives_a_crash(crashed):
    async def scene(node):
        assert partition_of(node, "a").log.log_start_offset == 7

    on_a_node(scene, crashed)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_or_is_full_at_that_is_told(tmp_path, number):
    """A full disk is not offline: what is there is served, and would begin earlier after a crash."""

    async def scene(node):
        client = Client(node)
        client.feed(produce_frame("a", 10))
        await until(client.answers)
        (directory,) = node.logs.directories

        def refuse(name, offsets):
            raise OSError(number, os.strerror(number))

        writes, directory.write_checkpoint = directory.write_checkpoint, refuse
        row = await deleted(node, 1)
        assert (row.error_code, row.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        if number == errno.ENOSPC:
            directory.write_checkpoint = writes
            row = await deleted(node, 1)
            assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 1)

    on_a_node(scene, tmp_path)
