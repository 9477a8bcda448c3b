"""What a policy of the user is asked, and how it refuses: `create.topic.policy.class.name` and
`alter.config.policy.class.name` name classes in Python, as `module:Class` (docs/policies.md).

    class OurTopics:
        def configure(self, settings): ...      once, at the start: the broker's settings as texts; optional
        def validate(self, request): ...        raises PolicyViolation to refuse

The requests hold what Kafka gives its CreateTopicPolicy and AlterConfigPolicy (KIP-108, KIP-133).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class PolicyViolation(Exception):
    """Raised by a policy: the request is refused with POLICY_VIOLATION, and the client sees the message."""


class CreateTopicRequest(NamedTuple):
    """A topic that is to be created. The counts are the ones it would get (never -1), or None where the
    request assigns replicas itself; then `replicas_assignments` has them by partition, else it is None."""

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str | None]
    """The settings that the request names."""


class AlterConfigRequest(NamedTuple):
    """Settings that are to be changed."""

    resource_type: str
    """topic, broker or group."""
    resource_name: str
    """For a broker its id; empty: all brokers."""
    configs: Mapping[str, str | None]
    """The new values; None: the setting is removed. Values appended to a list come with the whole list."""
