"""Every transition between the protocols as a transcript, and what holds after each of its lines."""

import pytest
from consumer_world import check_ownership
from mixed_script import MemoryPort, Script
from mixed_transcripts import TRANSCRIPTS, Transcript

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=[row.name for row in TRANSCRIPTS])
def test_the_conversation_goes_as_written(transcript: Transcript) -> None:
    port = MemoryPort({"a": 12, "b": 4}, **transcript.settings)
    script = Script(port)
    for line in transcript.lines.strip().splitlines():
        said, _, answers = line.partition("->")
        answer = answers.partition("|")[0].strip()
        assert script.run(said.strip()) == answer, line
        group = port.world.shard.groups.get(port.group_id)
        if isinstance(group, ConsumerGroup):
            check_ownership(group)
    port.close()
