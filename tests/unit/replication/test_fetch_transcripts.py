"""The fetch machine, by transcripts: fetch_transcripts/*.txt, one a story. fetch_transcript.py says how they
are read.
"""

from pathlib import Path

import pytest
from fetch_transcript import Player

STORIES = sorted((Path(__file__).parent / "fetch_transcripts").glob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=[story.stem for story in STORIES])
def test_story(story: Path) -> None:
    told = story.read_text(encoding="utf-8").rstrip("\n")
    assert Player().play(told) == told


def test_every_input_output_and_state_occurs_in_a_story() -> None:
    told = "\n".join(story.read_text(encoding="utf-8") for story in STORIES)
    inputs = {line[1:].split()[0] for line in told.splitlines() if line.startswith(">")}
    helpers = {"_changes", "_partition", "_followed", "_note"}
    words = {name for name in vars(Player) if name.startswith("_") and not name.startswith("__")}
    assert inputs == {name[1:] for name in words - helpers}
    for output in ("append to", "append nothing to", "truncate", "restart", "find the start of", "error:"):
        assert f"\n  {output}" in told, output
    for state in ("fetching", "storing", "late", "searching", "paused", "throttled"):
        assert f"-> {state}\n" in told, state
