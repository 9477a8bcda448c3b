"""What to tell a user about a batch in a log that no consumer can read.

A leader refuses such a batch of a producer (appending/inspection.py). A topic may hold one all the same: from
an earlier version, from a mirror, from a disk that changed it, or with moldau.records.check=false. A client
that asks again gets the same bytes again, so it stops instead, and says where, and how to go on.

librdkafka reports it as an error of one of the names here, with the batch's offset. Not here: our own
client's checks (client/arrow.py, client/fetcher.py).
"""

UNREADABLE = frozenset({"_BAD_MSG", "_BAD_COMPRESSION"})
"""librdkafka's names for it."""


def advice(topic: str, partition: int, offset: int, behind: int | None = None) -> str:
    """How to go on behind the batch at `offset`; `behind`: the offset that follows it, if that is known."""
    where = f"offset {behind}" if behind is not None else "a later offset, where its neighbour begins"
    to = behind if behind is not None else "OFFSET"
    return (
        f"no consumer can read the batch at offset {offset} of {topic}-{partition}. `moldau dump-log "
        f"DATA/{topic}-{partition}` shows it. To go on behind it, read from {where}: `moldau consume {topic} "
        f"-p {partition} -o {to}`, for a group `moldau groups reset-offsets GROUP --topic "
        f"{topic}:{partition} --to-offset {to} --execute`"
    )
