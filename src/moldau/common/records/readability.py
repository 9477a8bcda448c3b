"""Whether a stored batch can be read, and what is wrong if not: for tools that look through a log.

A log may hold what its leader would refuse today: from an earlier version, a mirror, or a damaged disk.
Offset deltas may have gaps here, which compaction leaves. Not here: what is demanded of a producer's batch
(appending/inspection.py).
"""

from moldau.common.records import walk
from moldau.common.records.batch import HEADER_BYTES, BatchView
from moldau.common.records.compression import CompressionFailure, unpacked


def fault_of(batch: BatchView) -> str:
    """Why no consumer can read the batch's records; empty if they can be read. Takes as long as it takes."""
    body = memoryview(batch.data)[HEADER_BYTES:]
    if not batch.count and not body:
        return ""  # compaction has taken all of them
    try:
        with unpacked(batch.codec, body) as payload:
            outcome, position, index, _, _ = walk.find(
                payload, 0, 0, batch.count, batch.base_timestamp_ms, walk.INT64_MAX, walk.INT64_MAX
            )
            left = len(payload) - position
    except CompressionFailure as error:
        return f"the records cannot be decompressed: {error}"
    if outcome == walk.MALFORMED:
        return f"record {index} of {batch.count} cannot be read"
    return f"{left} bytes are left after the {batch.count} records" if left else ""
