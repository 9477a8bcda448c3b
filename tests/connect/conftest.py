"""Connectors against the real other side: what they need is started here, or the test says what is
missing."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))
sys.path.insert(0, str(HERE.parent / "unit" / "connect"))
