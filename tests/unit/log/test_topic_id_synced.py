"""A power cut after a log's first sync: whose records these are is on the disk with them."""

import random

import pytest

from moldau.broker.log.files.checkpoints import read_topic_id
from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.upkeep.creation import create_log
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("seed", range(40))
def test_the_topic_id_is_as_safe_as_the_records(seed: int) -> None:
    """It was torn now and then, and the records were taken for those of a topic of the same name that was
    made while the broker was down (random cluster, seed 700573).
    """
    files = SimulatedFiles(seed)
    files.make_directory("/d")
    files.sync_directory("/d")
    log = create_log(
        files,
        "/d/t-0",
        "t",
        0,
        TOPIC_ID,
        TopicSettings(),
        descriptors=DescriptorLimit(),
        now_ms=NOW_MS,
        source=random.Random(seed),
    )
    log.leader.append(memoryview(bytearray(build_simple_batch([(b"k", b"v")], NOW_MS))), 0, NOW_MS)
    log.writer.flush_staged()
    job = log.flusher.job()
    assert job is not None
    job.run()
    log.flusher.job_done(job)
    files.power_cut()
    assert read_topic_id(files, "/d/t-0") == TOPIC_ID
    assert open_log(files, "/d/t-0", "t", 0, TopicSettings()).log.log_end_offset == 1
