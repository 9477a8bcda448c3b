"""Which member becomes the primary: the present one, else the eligible one with the smallest address.

As Confluent's registry decides, so that it does not matter whose instance leads the group. A primary that was
killed and started again is in the group twice for a while, with one address; members that have the address
of another are told of in the log, because two that live would take each other's writes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import pairwise

from moldau.services.registry.election.identity import Assignment, Identity

log = logging.getLogger("moldau.registry.election.choice")


def choose_primary(members: Mapping[str, Identity]) -> Assignment:
    """The assignment for a group of these members, by member id."""
    eligible = {member: identity for member, identity in members.items() if identity.eligible}
    urls = sorted(identity.url for identity in members.values())
    twice = sorted({url for url, following in pairwise(urls) if url == following})
    if twice:
        log.warning(
            "several members of the registry's group have the address %s: one was started again, or "
            "host.name is not set to an address of its own for each",
            ", ".join(twice),
        )
    if not eligible:
        return Assignment(None, None)
    primaries = [member for member, identity in eligible.items() if identity.is_primary]
    if len(primaries) == 1:
        return Assignment(primaries[0], eligible[primaries[0]])
    member = min(eligible, key=lambda each: (eligible[each].url, each))
    return Assignment(member, eligible[member])
