"""New offsets of a group, for `moldau groups reset-offsets` and kafka-consumer-groups.

A plan is a pure function of the committed offsets and the partitions' log start and end offsets; an offset
outside of the log is moved to the nearer end, as Kafka's tool does. As a file, a plan has rows of
topic,partition,offset, or group,topic,partition,offset where there are several groups.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.offset_range import Bound

Place = tuple[str, int]
"""A topic and a partition of it."""
_NUMBER = re.compile("[0-9]{1,18}")


def planned_offset(target: Bound, wanted: int, committed: int | None, low: int, high: int) -> tuple[int, int]:
    """Return the new offset of one partition, and the same within [low, high].

    `wanted` is the offset that the target names. For a partition without a committed offset, --to-current
    means its log end offset, as in Kafka's tool, and --shift-by is an error.
    """
    if target.kind == "start":
        wanted = low
    elif target.kind == "end":
        wanted = high
    elif target.kind == "current":
        wanted = high if committed is None else committed
    elif target.kind == "shift":
        if committed is None:
            raise CommandError("--shift-by needs committed offsets, and there are none: use --to-offset")
        wanted = committed + target.value
    return wanted, min(max(wanted, low), high)


def read_plan(path: Path, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
    """Read rows of topic,partition,offset (for the one group named) or group,topic,partition,offset."""
    plan: dict[str, dict[Place, int]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as source:
            for number, row in enumerate(csv.reader(source), start=1):
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                if len(cells) == 3 and len(groups) == 1:
                    cells = [groups[0], *cells]
                if len(cells) != 4 or not all(_NUMBER.fullmatch(cell) for cell in cells[2:]):
                    raise CommandError(
                        f"{path}, line {number}: expected topic,partition,offset for one group "
                        "or group,topic,partition,offset"
                    )
                plan.setdefault(cells[0], {})[cells[1], int(cells[2])] = int(cells[3])
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        why = problem.strerror if isinstance(problem, OSError) else f"it is no CSV file ({problem})"
        raise CommandError(f"cannot read {path}: {why}") from None
    return plan


def write_plan(rows: list[dict[str, Any]], *, with_group: bool) -> None:
    """Print the plan as CSV, as --from-file reads it."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for row in rows:
        cells = [row["topic"], row["partition"], row["new_offset"]]
        writer.writerow([row["group"], *cells] if with_group else cells)
