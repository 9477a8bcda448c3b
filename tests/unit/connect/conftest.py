"""Helpers of these tests are found by name (sink_batches)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "http"))
sys.path.insert(0, str(Path(__file__).parent / "rest"))
