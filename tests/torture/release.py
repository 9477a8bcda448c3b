"""`moldau` of another release: python torture/release.py PLAN serve ...

The plan, a file that is read at each start, says which: {"source": folder of its sources or "", "level": the
highest metadata level that it reads, or 0 for its own}. A level that no release has yet stands for the next
one. Replacing the file upgrades the broker when it is started again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    plan = json.loads(Path(sys.argv[1]).read_text())
    sys.path[0] = plan["source"]  # instead of this script's folder; "" is the working folder

    from moldau.broker.metadata import levels

    if plan["source"] and not str(levels.__file__).startswith(plan["source"]):
        raise SystemExit(f"{plan['source']} has no moldau: {levels.__file__} was found")
    if plan["level"]:
        levels.LEVEL_MAX = plan["level"]
        levels.LEVELS = (levels.LEVEL_MIN, levels.LEVEL_MAX)

    from moldau.tools.main import main as command

    sys.argv = ["moldau", *sys.argv[2:]]
    return command()


if __name__ == "__main__":
    sys.exit(main())
