"""Does a group stand where it was put?

For each group and partition: a member that resumes finds the last acknowledged commit, one that was under way
at the same time, or one whose outcome is unknown and which may have come later. A commit that ended before
another one began, and that other one before the resumption, is over. What a member has found counts as
acknowledged from then on, whatever its committer was told. In a history whose `commits_rise`, a later commit
is not less than one that was acknowledged before it began: it is one of a member that was put out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from histories.complaint import LOST_COMMIT, Complaint, at
from histories.history import ACKNOWLEDGED, FAILED, Commit, Place, Resume
from histories.index import Index


def judge_groups(index: Index, counts: Counter[str]) -> Iterator[Complaint]:
    """Every resumption against the commits of its group."""
    commits: dict[tuple[str, Place], list[Commit]] = {}
    for commit in index.history.commits:
        if commit.outcome != FAILED:
            commits.setdefault((commit.group, commit.place), []).append(commit)
    resumes: dict[tuple[str, Place], list[Resume]] = {}
    for resume in index.history.resumes:
        counts["resumes"] += 1
        resumes.setdefault((resume.group, resume.place), []).append(resume)
    if index.history.commits_rise:
        for made in commits.values():
            yield from _falls(made)
    for key, found in resumes.items():
        yield from _judge(found, commits.get(key, []))


def _falls(commits: list[Commit]) -> Iterator[Complaint]:
    made = sorted((one for one in commits if one.outcome == ACKNOWLEDGED), key=lambda one: one.ended_s)
    ends = [one.ended_s for one in made]
    highest = list(accumulate((one.offset for one in made), max))
    for commit in made:
        number = bisect_left(ends, commit.invoked_s)
        if number and commit.offset < highest[number - 1]:
            text = f"{commit.group} committed {at(commit.place, commit.offset)} after {highest[number - 1]}"
            yield Complaint(LOST_COMMIT, text)


def _seen(resumes: list[Resume], commits: list[Commit]) -> Iterator[Commit]:
    """Commits without an answer that a member has found: they were made by then."""
    by_offset: dict[int, list[Commit]] = {}
    for commit in commits:
        by_offset.setdefault(commit.offset, []).append(commit)
    for resume in resumes:
        found = [one for one in by_offset.get(resume.offset, ()) if one.invoked_s <= resume.ended_s]
        if found and all(one.ended_s > resume.ended_s for one in found):
            began_s = min(one.invoked_s for one in found)
            yield Commit(resume.group, resume.place, resume.offset, began_s, ACKNOWLEDGED, resume.ended_s)


def _judge(resumes: list[Resume], commits: list[Commit]) -> Iterator[Complaint]:
    acknowledged = sorted(
        [*(one for one in commits if one.outcome == ACKNOWLEDGED), *_seen(resumes, commits)],
        key=lambda one: one.ended_s,
    )
    ends = [one.ended_s for one in acknowledged]
    # The latest beginning of those that had ended by then: what ended before it is over.
    latest = list(accumulate((one.invoked_s for one in acknowledged), max))
    by_offset: dict[int, list[Commit]] = {}
    for commit in commits:
        by_offset.setdefault(commit.offset, []).append(commit)
    for resume in resumes:
        number = bisect_left(ends, resume.invoked_s)
        over_before_s = latest[number - 1] if number else -math.inf
        possible = any(
            (one.ended_s if one.outcome == ACKNOWLEDGED else math.inf) >= over_before_s
            and one.invoked_s <= resume.ended_s
            for one in by_offset.get(resume.offset, ())
        )
        if not possible and not (resume.offset < 0 and not number):
            expected = acknowledged[number - 1].offset if number else "nothing"
            where = at(resume.place, resume.offset)
            text = f"{resume.group} stands at {where}; the last acknowledged commit was {expected}"
            yield Complaint(LOST_COMMIT, text)
