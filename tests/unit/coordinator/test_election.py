"""A coordinator is made when it is needed, and knows exactly the partitions that its broker leads."""

from collections.abc import Sequence

from moldau.coordinator.election import ElectedCoordinator, ElectedCoordinators
from moldau.metadata.changes import Change
from moldau.metadata.image import EMPTY_IMAGE, Image, PartitionState, TopicState

TOPIC = "__consumer_offsets"
HERE, ELSEWHERE = 1, 2


class Recorder:
    """A coordinator that writes down what it is told."""

    topic = TOPIC

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def start(self) -> None:
        self.said.append("start")

    def stop(self) -> None:
        self.said.append("stop")

    def elected(self, index: int, leader_epoch: int) -> None:
        self.said.append(f"elected {index} in {leader_epoch}")

    def resigned(self, index: int) -> None:
        self.said.append(f"resigned {index}")

    def metadata_changed(self, old_image: Image, new_image: Image, changes: Sequence[Change]) -> None:
        self.said.append(f"image {new_image.version}")

    def partition_for(self, key: str) -> int:
        return 0


def image(version: int, *leaders: tuple[int, int], topic: str = TOPIC) -> Image:
    """(leader, leader epoch) of each partition."""
    states = tuple(
        PartitionState.fresh((HERE, ELSEWHERE))._replace(leader=leader, leader_epoch=leader_epoch)
        for leader, leader_epoch in leaders
    )
    return EMPTY_IMAGE._replace(version=version, topics={topic: TopicState(topic, bytes(16), states)})


def test_what_was_led_before_it_was_made_is_told_when_it_is_made() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said), lambda: said.append("made"))
    row.follow(image(1, (HERE, 0), (ELSEWHERE, 0), (HERE, 3)))
    assert row.made is None
    coordinator = row.get()
    assert said == ["start", "elected 0 in 0", "elected 2 in 3", "made"]
    assert row.get() is coordinator is row.made
    assert len(said) == 4


def test_it_is_told_of_what_changes_and_of_nothing_else() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.follow(image(1, (HERE, 0), (ELSEWHERE, 0)))
    said.clear()
    row.follow(image(2, (ELSEWHERE, 1), (HERE, 1)))
    assert said == ["resigned 0", "elected 1 in 1"]
    said.clear()
    row.follow(image(3, (ELSEWHERE, 1), (HERE, 1)))
    row.follow(image(2, (HERE, 7), (HERE, 7)))  # an older image, which came late
    assert said == []


def test_a_partition_led_in_a_later_epoch_is_given_up_and_loaded_again() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.follow(image(1, (HERE, 0)))
    said.clear()
    row.follow(image(2, (HERE, 1)))
    assert said == ["resigned 0", "elected 0 in 1"]


def test_a_topic_that_is_deleted_or_another_ones_counts_as_not_led() -> None:
    said: list[str] = []
    row = ElectedCoordinator(HERE, lambda: Recorder(said))
    row.get()
    row.follow(image(1, (HERE, 0)))
    said.clear()
    row.follow(image(2, (HERE, 0), topic="orders"))
    assert said == ["resigned 0"]


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
    both.follow(image(2, (HERE, 0)))
    both.metadata_changed(EMPTY_IMAGE, image(2), ())
    both.stop()
    both.follow(image(3))
    assert first == second == ["start", "elected 0 in 0", "image 2", "stop"]
