"""`@batched`: what a function returns goes to a topic, in batches, from a queue or from a spool.

@batched("clicks", size=500, seconds=1)
def click(user: str, page: str) -> dict[str, str]:
    return {"user": user, "page": page}

decorator.py   the function that takes its place, for sync and asyncio; fork, exit, signals
buffer.py      what waits in memory, bounded: block, raise, or drop
spooled.py     what waits on the disk (spool/), and survives the process
sender.py      the thread that sends one batch after the other
record.py      what a function may return
"""

from moldau.kit.batched.buffer import BatchFull
from moldau.kit.batched.decorator import Batched, batched, exit_on_sigterm
from moldau.kit.batched.record import Record
from moldau.kit.batched.sender import Stats

__all__ = ["BatchFull", "Batched", "Record", "Stats", "batched", "exit_on_sigterm"]
