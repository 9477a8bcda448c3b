"""Traffic of one topic, as plain counters that the metrics read."""


class TopicStats:
    """Counters of one topic; they only grow."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.replication_bytes_in = 0  # fetched from leaders
        self.replication_bytes_out = 0  # fetched by followers; not in bytes_out
