"""The role machine, by transcripts: role_transcripts/*.txt, one a story. role_transcript.py says how they are
read.
"""

from pathlib import Path

import pytest
from role_transcript import Player

STORIES = sorted((Path(__file__).parent / "role_transcripts").glob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=[story.stem for story in STORIES])
def test_story(story: Path) -> None:
    told = story.read_text(encoding="utf-8").rstrip("\n")
    assert Player().play(told) == told


def test_every_input_and_output_occurs_in_a_story() -> None:
    told = "\n".join(story.read_text(encoding="utf-8") for story in STORIES)
    inputs = {line[1:].split()[0] for line in told.splitlines() if line.startswith(">")}
    assert inputs == {name[1:] for name in vars(Player) if name.startswith("_") and not name.startswith("__")}
    for output in (
        "high watermark",
        "settle",
        "wake fetches",
        "truncate to",
        "ask for isr",
        "fetch from",
        "stop fetching",
    ):
        assert f"\n  {output}" in told, output
