"""Spark's active jobs, and the completed tasks of their stages.

A micro-batch reports nothing until it is done, which on a busy machine takes minutes. Spark's status tracker
counts its tasks; two different observations mean progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Stage:
    """A stage of a job, with tasks that are done or at work."""

    id: int
    tasks: int
    done: int
    failed: int
    running: int


@dataclass(frozen=True)
class Work:
    """Spark's work at one moment."""

    jobs: tuple[int, ...] = ()
    stages: tuple[Stage, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.jobs)

    def __str__(self) -> str:
        if not self.jobs:
            return "Spark has no job"
        done, tasks = sum(each.done for each in self.stages), sum(each.tasks for each in self.stages)
        jobs = f"{len(self.jobs)} job{'' if len(self.jobs) == 1 else 's'}"
        return f"Spark has {jobs} at work, {done} of {tasks} tasks done"


def work_of(session: SparkSession) -> Work:
    """Read Spark's status tracker."""
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    return Work(
        tuple(sorted(tracker.getActiveJobsIds())),
        tuple(
            Stage(
                each.stageId,
                each.numTasks,
                each.numCompletedTasks,
                each.numFailedTasks,
                each.numActiveTasks,
            )
            for each in sorted((one for one in stages if one is not None), key=lambda one: one.stageId)
        ),
    )
