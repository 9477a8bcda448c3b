"""Programs that tests kill: `python kit_program.py JOB LINES BOOTSTRAP TOPIC ...`; they note what they do."""

from __future__ import annotations

import sys
from pathlib import Path

from kit_running import note


def delivery(lines: Path, bootstrap: str, topic: str, word: str) -> None:
    """Handle records and note each."""
    from moldau.kit.delivery import ConsumerLoop

    loop = ConsumerLoop(
        topic,
        group=f"group-{topic}",
        delivery=word,  # type: ignore[arg-type]
        bootstrap_servers=bootstrap,
        batch=50,
        commit_seconds=0.05,
        config={"group.instance.id": "one", "session.timeout.ms": 30_000},
    )
    loop.stop_on_signals()
    loop.run(lambda record: note(lines, (record.value() or b"").decode()))


JOBS = {"delivery": delivery}

if __name__ == "__main__":
    JOBS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
