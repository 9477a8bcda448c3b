"""The outputs of a fetch machine (fetch_machine.py), which leader_fetch.py carries out.

Each is a plain value, so that a test can print and compare it.
"""

from typing import NamedTuple, TypeAlias

from moldau.broker.replication.following.followed import Followed, Position


class Append(NamedTuple):
    """Append what the leader sent; then call `appended`, or `append_failed`."""

    followed: Followed
    records: bytes | memoryview
    high_watermark: int
    log_start_offset: int


class Truncate(NamedTuple):
    """The leader's history is another one after `epoch`, which ended at `end_offset`: have the role truncate.
    If nothing was truncated, call `not_truncated`.
    """

    followed: Followed
    leader_epoch: int
    epoch: int
    end_offset: int


class Restart(NamedTuple):
    """Empty the log, and go on at this offset; if that fails, call `not_restarted`."""

    followed: Followed
    leader_epoch: int
    offset: int


class FindStart(NamedTuple):
    """Ask the leader where its log begins and ends (out_of_range.py); then call `start_found`."""

    followed: Followed
    position: Position


class Report(NamedTuple):
    """For the log of this broker."""

    level: int
    """Of `logging`."""
    text: str


Output: TypeAlias = Append | Truncate | Restart | FindStart | Report
Outputs: TypeAlias = tuple[Output, ...]
NOTHING: Outputs = ()
