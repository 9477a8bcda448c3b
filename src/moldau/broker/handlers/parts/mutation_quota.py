"""The quota on changes of metadata of a request's client (KIP-599).

A handler that makes or deletes topics or partitions passes the quota on, and puts the delay in its answer;
dispatch mutes the connection for as long.
"""

from typing import TYPE_CHECKING

from moldau.broker.handlers.parts.broker import RequestContext

if TYPE_CHECKING:
    from moldau.broker.security.quotas.mutations import Mutations


def mutations_of(context: RequestContext, strict_from: int) -> "Mutations | None":
    """The quota; None: the client has none. `strict_from`: the first version in which a topic may be
    refused."""
    limits = context.session.limits
    return None if limits is None else limits.mutations(strict=context.api_version >= strict_from)


def mutation_delay_ms(mutations: "Mutations | None") -> int:
    """How long the client must wait."""
    return 0 if mutations is None else mutations.delay_ms()
