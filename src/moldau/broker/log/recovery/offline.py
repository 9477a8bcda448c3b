"""A stand-in for a log that could not be opened, so that its partition answers KAFKA_STORAGE_ERROR, with the
cause, and not UNKNOWN_TOPIC_OR_PARTITION.

It is empty, refuses appends and touches no file.
"""

from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.segment import Segment
from moldau.broker.log.log import Log
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import Producers
from moldau.common.core.files import Files
from moldau.common.settings.topic import TopicSettings

_NOWHERE = "/dev/null"


def offline_log(
    files: Files, topic: str, partition: int, topic_id: bytes, settings: TopicSettings, cause: str
) -> Log:
    """The stand-in for the log of this partition, which is offline because of `cause`."""
    descriptors = DescriptorLimit()
    log = Log(
        files,
        _NOWHERE,
        topic,
        partition,
        settings,
        descriptors,
        [Segment(files, _NOWHERE, 0, descriptors, 0)],
        LeaderEpochs(files, _NOWHERE),
        Producers(),
        start_offset=0,
        end_offset=0,
        flushed_end_offset=0,
        snapshot_offsets=[],
        topic_id=topic_id,
        directory_dirty=False,
    )
    log.writer.go_offline()
    log.offline_cause = cause
    return log
