"""`moldau groups reset-offsets`: changes committed offsets. A dry run unless --execute is given.

What the new offsets are is decided in reset_plan.py, which kafka-consumer-groups shares.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.commands.groups.reset_plan import planned_offset, read_plan, write_plan
from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.offset_range import Bound
from moldau.tools.shared.options import Connect, Json, connected
from moldau.tools.shared.output import headings, note, print_json, print_table
from moldau.tools.shared.timestamps import parse_duration_ms, parse_moment_ms

if TYPE_CHECKING:
    from moldau.client.admin.groups import Committed
    from moldau.client.admin.layout import Place
    from moldau.tools.shared.connection import Connection

HELP = """Reset the committed offsets of groups. Shows the plan; --execute applies it.

The group must have no members. Say which partitions (--topic, --all-topics or those in --from-file) and
where to.

Examples:

* moldau groups reset-offsets billing --topic orders --to-earliest
* moldau groups reset-offsets billing --topic orders:0,2 --shift-by -100 --execute
* moldau groups reset-offsets billing --all-topics --by-duration PT2H --execute
* moldau groups reset-offsets billing --all-topics --to-current --export > offsets.csv
* moldau groups reset-offsets billing --from-file offsets.csv --execute
"""

INACTIVE_STATES = ("Empty", "Dead")


@connected
def reset_offsets(
    connect: Connect,
    groups: Annotated[
        list[str] | None,
        typer.Argument(metavar="GROUP", help="The groups.", autocompletion=completion.groups),
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Every group.")] = False,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="A topic, or some partitions of it.",
            autocompletion=completion.topics_to_reset,
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic with a committed offset of the group.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: only new records.")] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current",
            help="To the committed offset (to export it, or to bring it into the log's range).",
        ),
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Forward, or back if negative.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="MOMENT",
            help="To the first record since then (2026-02-14T09:00:00.000 is UTC).",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration", metavar="PnDTnHnMnS", help="To this long ago, such as PT2H30M or 2h30m."
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="CSV", help="To the offsets in rows topic,partition,offset."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan (the default).")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Apply the plan.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the plan as CSV for --from-file.")] = False,
    as_json: Json = False,
) -> None:
    """Move what a group will read next (see HELP)."""
    from moldau.tools.commands.groups.description import list_groups
    from moldau.tools.shared.admin import require_names

    if dry_run and execute:
        raise UsageError("--dry-run and --execute contradict each other: give one")
    if bool(groups) == all_groups:
        raise UsageError("name the groups, or give --all-groups")
    require_names(groups, "a group's name")
    target = choose_target(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        shift_by=shift_by,
        to_datetime=to_datetime,
        by_duration=by_duration,
        from_file=from_file is not None,
        now_ms=time.time_ns() // 1_000_000,
    )
    if from_file is None and bool(topics) == all_topics:
        raise UsageError("name the partitions: --topic TOPIC, --topic TOPIC:0,1 or --all-topics")
    connection = connect()
    names = list(groups or [each.group_id for each in list_groups(connection.cluster())])
    _require_inactive(connection, names)
    listed = read_plan(from_file, names) if from_file is not None else None
    rows = [row for name in names for row in _plan(connection, name, target, topics, listed)]
    if execute:
        _carry_out(connection, rows)
    if export:
        write_plan(rows, with_group=len(names) > 1)
    elif as_json:
        print_json(rows)
    else:
        columns = headings("group topic partition new_offset")
        print_table(
            rows, columns | {"current_offset": "CURRENT-OFFSET"}, empty="the group has no committed offsets"
        )
        if rows and not execute:
            note("dry run: nothing was changed; --execute applies the plan")


def choose_target(
    *,
    to_earliest: bool = False,
    to_latest: bool = False,
    to_current: bool = False,
    to_offset: int | None = None,
    shift_by: int | None = None,
    to_datetime: str | None = None,
    by_duration: str | None = None,
    from_file: bool = False,
    now_ms: int,
) -> Bound:
    """Turn the options into one target. UsageError unless exactly one was given."""
    targets = [
        Bound("start") if to_earliest else None,
        Bound("end") if to_latest else None,
        Bound("current") if to_current else None,
        Bound("offset", to_offset) if to_offset is not None else None,
        Bound("shift", shift_by) if shift_by is not None else None,
        Bound("moment", parse_moment_ms(to_datetime, now_ms)) if to_datetime is not None else None,
        Bound("moment", now_ms - parse_duration_ms(by_duration)) if by_duration is not None else None,
        Bound("file") if from_file else None,
    ]
    given = [target for target in targets if target is not None]
    if len(given) != 1:
        raise UsageError(
            "give exactly one target: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
            "--to-datetime, --by-duration or --from-file"
        )
    return given[0]


def _require_inactive(connection: Connection, names: Sequence[str]) -> None:
    from moldau.tools.commands.groups.description import list_groups

    states = {each.group_id: each.state for each in list_groups(connection.cluster())}
    for name in names:
        # A group that does not exist may be given offsets before it first reads: no entry is fine.
        state = states.get(name, "Dead")
        if state not in INACTIVE_STATES:
            raise CommandError(
                f"group {name!r} is {state}: its offsets can only be reset while it has no members; "
                f"stop them first (`moldau groups members {name}` names them)"
            )


def _plan(
    connection: Connection,
    group: str,
    target: Bound,
    topics: list[str] | None,
    listed: dict[str, dict[Place, int]] | None,
) -> list[dict[str, Any]]:
    from moldau.client.offsets import EARLIEST, LATEST
    from moldau.tools.commands.groups.description import expand_topics

    committed = {place: each.offset for place, each in _movable(connection, group).items()}
    if listed is not None:
        places = sorted(listed.get(group, {}))
    else:
        places = sorted(expand_topics(connection, topics)) if topics else sorted(committed)
    if not places:
        return []
    cluster = connection.cluster()
    lows, highs = (cluster.offsets(dict.fromkeys(places, when)) for when in (EARLIEST, LATEST))
    moments: dict[Place, int] = {}
    if target.kind == "moment":  # the end, where no record is as late
        since = cluster.offsets(dict.fromkeys(places, max(0, target.value)))
        moments = {place: highs[place] if offset < 0 else offset for place, offset in since.items()}
    rows = []
    for place in places:
        wanted = listed[group][place] if listed is not None else moments.get(place, target.value)
        asked, offset = planned_offset(target, wanted, committed.get(place), lows[place], highs[place])
        if asked != offset:
            note(
                f"{place[0]}-{place[1]} has offsets {lows[place]} to {highs[place]}: "
                f"{offset} is taken for {asked}"
            )
        rows.append(
            {
                "group": group,
                "topic": place[0],
                "partition": place[1],
                "new_offset": offset,
                "current_offset": committed.get(place),
            }
        )
    return rows


def _movable(connection: Connection, group: str) -> dict[Place, Committed]:
    from moldau.client.admin.groups import Committed, committed_offsets
    from moldau.client.admin.share_groups import share_offsets
    from moldau.tools.commands.groups.description import share_group_ids

    if group in share_group_ids(connection.cluster()):
        return {
            (each.topic, each.partition): Committed(each.start_offset)
            for each in share_offsets(connection.cluster(), group)
            if each.start_offset is not None
        }
    committed = committed_offsets(connection.cluster(), group)
    if any(each.is_ledger for each in committed.values()):
        raise CommandError(
            f"the offsets of group {group!r} are the ledger of an exactly-once sink (numbers of "
            "micro-batches, not positions): resetting them would make it write a micro-batch twice"
        )
    return committed


def _carry_out(connection: Connection, rows: list[dict[str, Any]]) -> None:
    from moldau.client.admin.share_groups import alter_share_offsets
    from moldau.client.errors import error_words
    from moldau.tools.commands.groups.description import share_group_ids

    shares = share_group_ids(connection.cluster())
    for group in sorted({row["group"] for row in rows}):
        moved = {(row["topic"], row["partition"]): row["new_offset"] for row in rows if row["group"] == group}
        if group not in shares:
            connection.cluster().commit_offsets(group, moved)
            continue
        failed = {
            place: code
            for place, code in alter_share_offsets(connection.cluster(), group, moved).items()
            if code
        }
        if failed:
            raise CommandError(
                "; ".join(f"{topic}-{index}: {error_words(code)}" for (topic, index), code in failed.items())
            )
