"""A topic's settings as an append needs them: which batches pass by their header alone, and what the others
are checked against (validation.py, inspection.py).
"""

from moldau.common.records import compression
from moldau.common.records.batch import TRANSACTIONAL
from moldau.common.settings.rows import MAX_LONG
from moldau.common.settings.topic import TopicSettings

_LZ4_DEFAULT_LEVEL = 9
CODECS = frozenset(range(len(compression.CODEC_NAMES)))


class Rules:
    """A topic's settings as the append needs them."""

    __slots__ = (
        "after_max_ms",
        "append_time",
        "before_max_ms",
        "codec",
        "compacts",
        "level",
        "looks_inside",
        "plain_attributes",
        "size_bytes_max",
        "timestamps_limited",
    )

    def __init__(self, settings: TopicSettings) -> None:
        self.size_bytes_max = settings.max_message_bytes
        self.append_time = settings.message_timestamp_type == "LogAppendTime"
        self.before_max_ms = settings.message_timestamp_before_max_ms
        self.after_max_ms = settings.message_timestamp_after_max_ms
        self.timestamps_limited = not self.append_time and self.before_max_ms < MAX_LONG
        self.compacts = settings.compacts
        self.looks_inside = settings.moldau_records_check
        self.codec: int | None = None
        self.level: int | None = None
        if settings.compression_type != "producer":
            self.codec = compression.CODEC_NUMBERS[settings.compression_type]
            self.level = {
                compression.GZIP: settings.compression_gzip_level,
                compression.ZSTD: settings.compression_zstd_level,
                # As in Kafka, the default level of lz4 stands for the fast compressor.
                compression.LZ4: settings.compression_lz4_level
                if settings.compression_lz4_level != _LZ4_DEFAULT_LEVEL
                else None,
            }.get(self.codec)
        # The attributes with which a batch may pass by its header alone: a codec, and perhaps the bit of
        # transactions.
        codecs = CODECS if self.codec is None else frozenset({self.codec})
        if self.append_time or self.timestamps_limited or self.compacts:
            codecs = frozenset()
        self.plain_attributes = codecs | {codec | TRANSACTIONAL for codec in codecs}
