"""What Spark's Python processes pay between two pieces of work, and how to pay less.

Spark keeps its Python processes and has each collect its garbage after every piece of work: a task, a
micro-batch's plan, its commit. A full collection looks at every object there is, which with pandas, pyarrow
and pyspark loaded are some hundred thousand and takes 30 to 50 ms of a core. A micro-batch from topic to
topic has four such pieces, so that more of it went into looking at modules than into records.

Modules stay. `gc.freeze` tells the collector to leave alone what there is; everything made afterwards is
collected as before.
"""

from __future__ import annotations

import gc

FREEZE_AT = (2, 10)
"""Pieces of work, counted from one, before which what is there is frozen. Not before the first: the most
is imported during it, and the collection after it has removed what it left over. Once more a little later
for what came in then."""

_pieces = 0


def begins_work() -> None:
    """Say that this process begins a piece of work for Spark."""
    global _pieces
    _pieces += 1
    if _pieces in FREEZE_AT:
        gc.freeze()
