"""Reduces the cost of garbage collection in Spark's Python processes.

Spark keeps its Python processes and makes each collect garbage after every piece of work: a task, a
micro-batch's plan, its commit. A full collection visits every object; with pandas, pyarrow and pyspark loaded
these are some hundred thousand, and it takes 30 to 50 ms of a core. A micro-batch from topic to topic has
four such pieces of work.

The objects of modules stay alive. `gc.freeze` excludes what exists now; later objects are collected as
before.
"""

from __future__ import annotations

import gc

FREEZE_AT = (2, 10)
"""Pieces of work, counted from one, before which what is there is frozen. Not before the first: the most
is imported during it, and the collection after it has removed what it left over. Once more a little later
for what came in then."""

_pieces = 0


def begins_work() -> None:
    """Mark the beginning of a piece of work for Spark in this process."""
    global _pieces
    _pieces += 1
    if _pieces in FREEZE_AT:
        gc.freeze()
