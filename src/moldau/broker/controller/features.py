"""What an administrator decides about features: Moldau's metadata level, and levels of Kafka's features.

All of a request is decided in one append, or nothing. When eligible leader replicas are switched off, no list
of them is left behind: where a partition has none in sync, the eligible ones become its in-sync set, which
waits for one of them as Kafka's did before KIP-966. A partition that waits for the longest log (in_sync.py)
has no such set, so that it must be led or deleted first.

Eligible leader replicas need one `min.insync.replicas` for all brokers (KIP-966): the leader, which decides
what is committed, and the controller, which decides who is eligible, must not differ in it. So a new cluster,
and one in which they are switched on, gets the settings file's value as the default of all brokers, and
values for single brokers are removed. While they are on, that default stays (another value may be set), and
values for single brokers are refused (configs.py).
"""

from collections.abc import Generator, Mapping

from moldau.broker.controller.brokers import raise_level
from moldau.broker.controller.configs import MIN_ISR
from moldau.broker.controller.decision import DONE, Decision, Outcome, Steps
from moldau.broker.controller.in_sync import NONE_ELIGIBLE, with_in_sync
from moldau.broker.metadata.changes import Change, ConfigsChanged, FeatureChanged, PartitionsChanged
from moldau.broker.metadata.configs import DEFAULT_BROKER, NOTHING
from moldau.broker.metadata.features import ELIGIBLE, level_of
from moldau.broker.metadata.image import Image, ResourceType
from moldau.broker.metadata.levels import FEATURE, FEATURES_LEVEL
from moldau.broker.metadata.store import Registration
from moldau.common.protocol.errors import ErrorCode

_AT_ONCE = 64


def update_features(
    image: Image, levels: Mapping[str, int], live: Mapping[int, Registration], min_isr: int
) -> Steps[Outcome]:
    """Decide on levels of features, which were checked as far as they can be without the cluster. `min_isr`:
    this broker's `min.insync.replicas`, without what is set for single brokers or for all.
    """
    yield
    changes: list[Change] = []
    if FEATURE in levels:
        raised = raise_level(image, levels[FEATURE], live)
        if raised.answer.failed:
            return _refused(FEATURE, levels[FEATURE], raised.answer.message or "")
        changes += raised.changes
    for name, level in levels.items():
        if name == FEATURE or level == level_of(image, name):
            continue
        if levels.get(FEATURE, image.level) < FEATURES_LEVEL:
            return _refused(name, level, f"It depends on {FEATURE}={FEATURES_LEVEL}.")
        if name == ELIGIBLE and level == 0:
            waiting = yield from _forget_eligible(image, changes)
            if waiting is not None:
                return _refused(name, level, waiting)
        if name == ELIGIBLE and level > 0:
            changes += one_min_isr(image, min_isr)
        changes.append(FeatureChanged(name, level))
    return Decision(changes, DONE)


def one_min_isr(image: Image, min_isr: int) -> list[Change]:
    """What makes `min.insync.replicas` the same on all brokers: `min_isr`, unless there is one for all."""
    changes: list[Change] = []
    if MIN_ISR not in image.configs.get(DEFAULT_BROKER, NOTHING):
        changes.append(ConfigsChanged(*DEFAULT_BROKER, {MIN_ISR: str(min_isr)}))
    changes += [
        ConfigsChanged(kind, name, {MIN_ISR: None})
        for (kind, name), values in image.configs.items()
        if kind is ResourceType.BROKER and name and MIN_ISR in values
    ]
    return changes


def _refused(name: str, level: int, complaint: str) -> Decision[Outcome]:
    message = f"Invalid update version {level} for feature {name}. {complaint}"
    return Decision([], Outcome(ErrorCode.INVALID_UPDATE_VERSION, message))


def _forget_eligible(image: Image, changes: list[Change]) -> Generator[None, None, str | None]:
    """Add what becomes of partitions with eligible replicas. A complaint, if one cannot do without."""
    for name, topic in image.topics.items():
        yield
        rows = []
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            if state.doubtful:
                return (
                    f"{name}-{index} has no leader, and waits for the longest log of the brokers "
                    f"{', '.join(map(str, state.doubtful))}; "
                    "start them, or elect a leader (moldau topics elect --type unclean), then try again."
                )
            after = with_in_sync(state, state.isr, NONE_ELIGIBLE)
            if after is not state:
                rows.append((index, after))
        if rows:
            changes.append(PartitionsChanged(name, tuple(rows)))
    return None
