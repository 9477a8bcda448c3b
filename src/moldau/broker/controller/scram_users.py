"""Changes of users' SCRAM credentials (AlterUserScramCredentials). A user succeeds or fails as a whole.

Clients send salted passwords; what is stored are the two keys derived from one (credentials/scram.py). With
the first credential the cluster gets the secret of which the salts of names that do not exist are made.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from moldau.broker.controller.decision import DONE, Decision, Outcome, Steps
from moldau.broker.metadata.changes import Change, ScramCredentialRemoved, ScramCredentialSet, ScramSecretMade
from moldau.broker.metadata.image import Image
from moldau.common.credentials.scram import (
    BY_NUMBER,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_of,
)
from moldau.common.protocol.errors import ErrorCode

_SECRET_BYTES = 32
_TWICE = Outcome(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


class ScramDeletion(NamedTuple):
    """Remove a user's credential. `mechanism`: its number in the protocol."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """Set a user's credential."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism}, {self.iterations}, [hidden])"


ScramAlteration = ScramDeletion | ScramUpsertion
Answer = list[tuple[str, Outcome]]


def alter_scram_users(image: Image, asked: Sequence[ScramAlteration], source: random.Random) -> Steps[Answer]:
    """Decide on changed credentials, RECORDS_MAX at most; an outcome for each user, in the order asked."""
    users = dict.fromkeys(one.user for one in asked)
    outcomes: dict[str, Outcome] = {}
    changes: dict[tuple[str, int], Change] = {}
    for one in asked:
        yield
        key = (one.user, one.mechanism)
        decided = _TWICE if key in changes else _decided(image, one)
        if not isinstance(decided, Outcome):
            changes[key] = decided
        elif one.user not in outcomes or decided is _TWICE:
            outcomes[one.user] = decided
    kept = [change for (user, _), change in changes.items() if user not in outcomes]
    if not image.scram_secret and any(isinstance(each, ScramCredentialSet) for each in kept):
        kept.insert(0, ScramSecretMade(source.randbytes(_SECRET_BYTES)))
    return Decision(kept, [(user, outcomes.get(user, DONE)) for user in users])


def _decided(image: Image, one: ScramAlteration) -> Change | Outcome:
    if not one.user:
        return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = BY_NUMBER.get(one.mechanism)
    if mechanism is None:
        return Outcome(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(one, ScramUpsertion):
        return _upsertion(mechanism, one)
    if mechanism.name not in image.scram.get(one.user, {}):
        message = "Attempt to delete a user credential that does not exist"
        return Outcome(ErrorCode.RESOURCE_NOT_FOUND, message)
    return ScramCredentialRemoved(one.user, mechanism.name)


def _upsertion(mechanism: ScramMechanism, one: ScramUpsertion) -> Change | Outcome:
    if one.iterations < ITERATIONS_MIN:
        return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if one.iterations > ITERATIONS_MAX:
        return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    credential = credential_of(mechanism, one.salted_password, one.salt, one.iterations)
    return ScramCredentialSet(one.user, mechanism.name, credential)
