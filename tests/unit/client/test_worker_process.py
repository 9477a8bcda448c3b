"""What was there before the second piece of work is not looked at by the collector; what came later is."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, weakref
from pyspark_moldau.worker_process import begins_work

class Ring:
    def __init__(self):
        self.me = self

begins_work()
assert gc.get_freeze_count() == 0, "the first piece of work is still loading modules"
begins_work()
assert gc.get_freeze_count() > 1000, gc.get_freeze_count()
seen = weakref.ref(Ring())
assert seen() is not None
gc.collect()
assert seen() is None, "garbage of a later piece of work must go"
"""


def test_modules_are_left_out_of_collections_and_later_garbage_is_not() -> None:
    pytest.importorskip("pyspark")
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
