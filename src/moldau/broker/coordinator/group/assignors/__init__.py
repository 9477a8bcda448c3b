"""The server-side assignors, by the name that a client or `group.consumer.assignors` gives.

An assignor is a pure function from a `GroupSpec` to each member's partitions: no clock, no randomness, no
state. The same group always gets the same answer, so a coordinator that fails over computes what its
predecessor would have.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from moldau.broker.coordinator.group.assignors.ranges import assign_ranges
from moldau.broker.coordinator.group.assignors.spec import EMPTY_ASSIGNMENT, Assignment, GroupSpec, MemberSpec
from moldau.broker.coordinator.group.assignors.uniform import assign_uniformly

Assignor = Callable[[GroupSpec], dict[str, Assignment]]

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})

__all__ = ["ASSIGNORS", "EMPTY_ASSIGNMENT", "Assignment", "Assignor", "GroupSpec", "MemberSpec"]
