"""Checks that Spark's Python workers have Moldau, before a query fails for it.

Spark starts `python3` from the PATH unless PYSPARK_PYTHON names another, whatever Python runs the program. A
program run as `.venv/bin/python job.py` (by cron, systemd, an editor) then computes in the system's Python,
and `format("moldau")` is not found. For sessions created here PYSPARK_PYTHON is set (session.py); the user's
own are checked when they are used.

Spark reads the variable when the session is created, and keeps it in `pythonExec` of the context, which it
reads whenever a function is sent to a worker. So in a session on this machine it is enough to set that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from moldau.streams.errors import StreamsError

if TYPE_CHECKING:
    from pyspark import SparkContext

HAS_MOLDAU = "import importlib.util as u, sys; sys.exit(u.find_spec('pyspark_moldau') is None)"
ANSWER_SECONDS = 60.0
CURE = "os.environ['PYSPARK_PYTHON'] = sys.executable, before the session is made"


def has_moldau(python: str) -> bool:
    """Whether this interpreter has Moldau; it is started as a worker would be, without our path."""
    if shutil.which(python) == sys.executable:
        return True
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    try:
        asked = subprocess.run(
            [python, "-c", HAS_MOLDAU],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except OSError:
        return False
    except subprocess.TimeoutExpired:
        return True  # nothing is known; Spark will find out
    return asked.returncode == 0


def see_that_workers_have_moldau(context: SparkContext, *, on_this_machine: bool, python: str) -> None:
    """Make the session's workers run in a Python that has Moldau; StreamsError if that cannot be changed.

    `python`: the interpreter to run, if all workers are on this machine.
    """
    chosen = context.pythonExec
    if chosen == python or has_moldau(chosen):
        return
    if on_this_machine and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = python
        return
    where = shutil.which(chosen)
    raise StreamsError(
        f"Spark works in {chosen}{f' ({where})' if where and where != chosen else ''}, which has no Moldau, "
        f'so that it would not find the format "moldau": {CURE}'
        + ("" if on_this_machine else " (or the path of a Python with Moldau on the machines of the cluster)")
    )
