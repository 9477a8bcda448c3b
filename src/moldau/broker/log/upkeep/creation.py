"""A new partition's log: its directory with the topic's id and one empty segment.

Opening an existing directory (recovery/recovery.py) looks at every file in it and forces to the disk what it
repaired. In a directory that was made a moment ago there is nothing to look at, which makes a new partition
several times cheaper; a thousand come at once.

    topic-0/  partition.metadata (written aside, renamed)  ->  00000000000000000000.log (empty)

A crash between two steps leaves a directory that recovery opens: an empty one, one with an id and no segment.
Nothing is forced to the disk here: the log's first sync does that, of the id too, and before it nothing was
acknowledged for which a machine crash is promised to be survived; the metadata has the partition made again.
"""

import random

from moldau.broker.log.files.checkpoints import write_topic_id
from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.segment import LOG_SUFFIX, Segment
from moldau.broker.log.log import Log
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import Producers
from moldau.common.core.files import Files
from moldau.common.settings.topic import TopicSettings


def create_log(
    files: Files,
    directory: str,
    topic: str,
    partition: int,
    topic_id: bytes,
    settings: TopicSettings,
    *,
    descriptors: DescriptorLimit,
    now_ms: int,
    source: random.Random,
    start_offset: int = 0,
) -> Log:
    """Make the directory, which must not exist yet, and the log in it, which begins at `start_offset`.
    OSError when the disk refuses.
    """
    files.make_directory(directory)
    write_topic_id(files, directory, topic_id)
    segment = Segment(files, directory, start_offset, descriptors, now_ms)
    files.close(files.open(segment.path(LOG_SUFFIX), create=True, truncate=True))
    jitter_ms = min(settings.segment_jitter_ms, settings.segment_ms)
    log = Log(
        files,
        directory,
        topic,
        partition,
        settings,
        descriptors,
        [segment],
        LeaderEpochs(files, directory),
        Producers(),
        start_offset=start_offset,
        end_offset=start_offset,
        flushed_end_offset=start_offset,
        snapshot_offsets=[],
        roll_jitter_ms=source.randrange(jitter_ms) if jitter_ms > 0 else 0,
        topic_id=topic_id,
    )
    log.flusher.last_flush_ms = now_ms
    return log
