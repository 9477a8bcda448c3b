"""A coordinator is made when it is needed, and knows exactly the partitions that its broker leads."""

from collections.abc import Sequence

import pytest

from moldau.broker.coordinator.election import ElectedCoordinator, ElectedCoordinators
from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.image import EMPTY_IMAGE, Image, PartitionState, TopicState

TOPIC = "__consumer_offsets"
HERE, ELSEWHERE = 1, 2


class Recorder:
    """A coordinator that writes down what it is told."""

    topic = TOPIC

    def __init__(self, said: list[str], failing: set[int] | None = None) -> None:
        self.said = said
        self.failing = failing or set()

    def start(self) -> None:
        self.said.append("start")

    def stop(self) -> None:
        self.said.append("stop")

    def elected(self, index: int, leader_epoch: int) -> None:
        self.said.append(f"elected {index} in {leader_epoch}")
        if index in self.failing:
            raise RuntimeError(f"no {index}")

    def resigned(self, index: int) -> None:
        self.said.append(f"resigned {index}")

    def metadata_changed(self, old_image: Image, new_image: Image, changes: Sequence[Change]) -> None:
        self.said.append(f"image {new_image.version}")

    def partition_for(self, key: str) -> int:
        return 0


def image(version: int, *leaders: tuple[int, int], topic: str = TOPIC, topic_id: bytes = bytes(16)) -> Image:
    """(leader, leader epoch) of each partition."""
    states = tuple(
        PartitionState.fresh((HERE, ELSEWHERE))._replace(leader=leader, leader_epoch=leader_epoch)
        for leader, leader_epoch in leaders
    )
    return EMPTY_IMAGE._replace(version=version, topics={topic: TopicState(topic, topic_id, states)})


def test_what_was_led_before_it_was_made_is_told_when_it_is_made() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said), lambda: said.append("made"))
    row.image_changed(image(1, (HERE, 0), (ELSEWHERE, 0), (HERE, 3)))
    assert row.made is None
    coordinator = row.get()
    assert said == ["start", "elected 0 in 0", "elected 2 in 3", "made"]
    assert row.get() is coordinator is row.made
    assert len(said) == 4


def test_it_is_told_of_what_changes_and_of_nothing_else() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.image_changed(image(1, (HERE, 0), (ELSEWHERE, 0)))
    said.clear()
    row.image_changed(image(2, (ELSEWHERE, 1), (HERE, 1)))
    assert said == ["resigned 0", "elected 1 in 1"]
    said.clear()
    row.image_changed(image(3, (ELSEWHERE, 1), (HERE, 1)))
    row.image_changed(image(2, (HERE, 7), (HERE, 7)))  # an older image, which came late
    assert said == []


def test_a_partition_led_in_a_later_epoch_is_given_up_and_loaded_again() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.image_changed(image(1, (HERE, 0)))
    said.clear()
    row.image_changed(image(2, (HERE, 1)))
    assert said == ["resigned 0", "elected 0 in 1"]


def test_a_topic_that_is_deleted_or_another_ones_counts_as_not_led() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.image_changed(image(1, (HERE, 0)))
    said.clear()
    row.image_changed(image(2, (HERE, 0), topic="orders"))
    assert said == ["resigned 0"]


def test_a_topic_made_again_under_its_name_is_loaded_again_although_its_epoch_is_the_same() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.image_changed(image(1, (HERE, 0), (HERE, 0)))
    said.clear()
    row.image_changed(image(3, (HERE, 0), topic_id=b"another topic id"))
    assert said == ["resigned 0", "resigned 1", "elected 0 in 0"]


def test_a_partition_at_which_it_fails_is_told_again_and_does_not_keep_the_others() -> None:
    said: list[str] = []
    failing = {0}
    row = ElectedCoordinator(HERE, lambda: Recorder(said, failing))
    row.get()
    newest = image(1, (HERE, 0), (HERE, 4))
    with pytest.raises(RuntimeError, match="no 0"):
        row.image_changed(newest)
    assert said == ["start", "elected 0 in 0", "elected 1 in 4"]
    said.clear()
    failing.clear()
    row.image_changed(newest)
    assert said == ["resigned 0", "elected 0 in 0"]
    said.clear()
    row.image_changed(newest)
    assert said == []


def test_a_coordinator_that_fails_as_it_is_made_is_told_again_with_the_next_image() -> None:
    said: list[str] = []
    failing = {0}
    row = ElectedCoordinator(HERE, lambda: Recorder(said, failing), lambda: said.append("made"))
    row.image_changed(image(1, (HERE, 0), (HERE, 0)))
    assert row.get() is row.made
    assert said == ["start", "elected 0 in 0", "elected 1 in 0", "made"]
    said.clear()
    failing.clear()
    row.image_changed(image(2, (HERE, 0), (HERE, 0)))
    assert said == ["resigned 0", "elected 0 in 0"]


def test_what_is_made_by_a_request_that_outlives_the_broker_is_not_started() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.image_changed(image(1, (HERE, 0)))
    row.stop()
    assert row.get() is row.get()
    assert said == []


def test_a_coordinator_that_fails_does_not_keep_the_next_one_from_following() -> None:
    first: list[str] = []
    second: list[str] = []
    both = ElectedCoordinators(
        ElectedCoordinator(HERE, lambda: Recorder(first, {0})),
        ElectedCoordinator(HERE, lambda: Recorder(second)),
    )
    both.make_all()
    with pytest.raises(RuntimeError, match="no 0"):
        both.image_changed(image(1, (HERE, 0)))
    assert second == ["start", "elected 0 in 0"]


def test_a_broker_treats_its_coordinators_alike() -> None:
    first: list[str] = []
    second: list[str] = []
    rows = (
        ElectedCoordinator(HERE, lambda: Recorder(first)),
        ElectedCoordinator(HERE, lambda: Recorder(second)),
    )
    both = ElectedCoordinators(*rows)
    both.metadata_changed(EMPTY_IMAGE, image(1), ())
    assert first == second == []  # not made yet
    both.make_all()
    both.image_changed(image(2, (HERE, 0)))
    both.metadata_changed(EMPTY_IMAGE, image(2), ())
    both.stop()
    both.image_changed(image(3))
    assert first == second == ["start", "elected 0 in 0", "image 2", "stop"]


def test_it_resigns_at_once_and_is_elected_when_the_partitions_are_in_step() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.image_changed(image(1, (HERE, 0), (ELSEWHERE, 0)))
    said.clear()
    newest = image(2, (ELSEWHERE, 1), (HERE, 1))
    row.resign(newest)
    assert said == ["resigned 0"]
    row.image_changed(newest)
    assert said == ["resigned 0", "elected 1 in 1"]
    said.clear()
    row.resign(newest)
    assert said == []


def test_what_an_image_on_its_way_takes_back_is_not_begun() -> None:
    """Image 2 elects it, image 3 another broker; partitions come in step with 2 when 3 is known already."""
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    elected, deposed = image(2, (HERE, 1), (HERE, 1)), image(3, (ELSEWHERE, 2), (HERE, 1))
    row.resign(elected)
    row.resign(deposed)
    row.image_changed(elected)
    row.image_changed(deposed)
    assert said == ["start", "elected 1 in 1"]


def test_a_coordinator_that_fails_to_resign_is_told_again_and_then_it_is_known() -> None:
    said: list[str] = []
    recorder = Recorder(said)
    row = ElectedCoordinator(HERE, lambda: recorder)
    row.get()
    row.image_changed(image(1, (HERE, 0)))
    resigned = recorder.resigned

    def fails(index: int) -> None:
        raise RuntimeError("no")

    recorder.resigned = fails  # type: ignore[method-assign]
    deposed = image(2, (ELSEWHERE, 1))
    row.resign(deposed)
    with pytest.raises(RuntimeError, match="no"):
        row.image_changed(deposed)
    recorder.resigned = resigned  # type: ignore[method-assign]
    row.image_changed(deposed)
    assert said[-1] == "resigned 0"


def test_one_topic_s_coordinator_need_not_wait_for_other_topics() -> None:
    groups: list[str] = []
    others: list[str] = []
    failing = {99}
    first = ElectedCoordinator(HERE, lambda: Recorder(groups, failing))
    second = ElectedCoordinator(HERE, lambda: Recorder(others))
    second.get().topic = "__transaction_state"  # type: ignore[misc]
    rows = ElectedCoordinators(first, second)
    rows.follow_topic(TOPIC, image(1, (HERE, 0)))
    assert groups == [], "nobody has needed it yet"
    first.get()
    rows.follow_topic(TOPIC, image(2, (HERE, 0)))
    assert groups == ["start", "elected 0 in 0"]
    assert others == ["start"]
    failing.add(1)
    newest = image(3, (HERE, 0), (HERE, 0))
    rows.follow_topic(TOPIC, newest)
    assert groups[-1] == "elected 1 in 0", "which failed; nobody here can do more about it"
    failing.clear()
    rows.image_changed(newest)
    assert groups[-2:] == ["resigned 1", "elected 1 in 0"]
