"""Decisions about mirrors, on images of one topic."""

from __future__ import annotations

from moldau.broker.controller.mirrors import partitions_done
from moldau.broker.metadata.changes import ProducerIdsAllocated
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.mirrors import MirrorState, MirrorTopic


def failing_over() -> Image:
    mirror = MirrorTopic("link", "t", state=MirrorState.FAILING_OVER, left=(0,))
    return EMPTY_IMAGE._replace(mirrors={"t": mirror})


def allotted(highest_producer_id: int) -> list[int]:
    """The next producer ids, after a failover with this one in the log."""
    decision = partitions_done(failing_over(), "t", MirrorState.FAILING_OVER, (0,), 1, highest_producer_id)
    assert decision.answer
    return [each.next_producer_id for each in decision.changes if isinstance(each, ProducerIdsAllocated)]


def test_producer_ids_of_the_source_are_not_allotted_again_here() -> None:
    assert allotted(4711) == [4712]


def test_a_producer_id_that_is_made_up_does_not_use_up_all_there_are() -> None:
    assert allotted(2**63 - 1) == []
