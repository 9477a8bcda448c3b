"""Finds SCRAM credentials in the metadata, for one mechanism.

Not here: delegation tokens (token_credentials.py).
"""

import random
from collections.abc import Callable, Sequence
from itertools import islice

from moldau.broker.metadata.image import Image, ScramUsers
from moldau.broker.security.login.scram import FindToken, Known, ScramStore
from moldau.common.credentials.scram import ScramMechanism
from moldau.common.credentials.scram_credential import ScramCredential

_SHAPES_MAX = 64
_SECRET_BYTES = 32


def scram_store(
    mechanism: ScramMechanism,
    image: Callable[[], Image],
    source: random.Random,
    tokens: FindToken | None = None,
) -> ScramStore:
    """The users of the image, as it is when a login asks. As long as no credential was ever stored, the
    secret for salts is this broker's own."""
    own_secret = source.randbytes(_SECRET_BYTES)

    def user(name: str) -> Known | None:
        found = image().scram.get(name, {}).get(mechanism.name)
        return None if found is None else Known(found, f"User:{name}")

    return ScramStore(
        user=user,
        token=tokens or (lambda token_id: None),
        secret=lambda: image().scram_secret or own_secret,
        shapes=_Shapes(mechanism.name, image),
    )


class _Shapes:
    """Some stored credentials of a mechanism; looked up once for each change of users."""

    def __init__(self, mechanism: str, image: Callable[[], Image]) -> None:
        self._mechanism = mechanism
        self._image = image
        self._users: ScramUsers | None = None
        self._found: Sequence[ScramCredential] = ()

    def __call__(self) -> Sequence[ScramCredential]:
        users = self._image().scram
        if users is not self._users:
            name = self._mechanism
            all_of_it = (own[name] for own in users.values() if name in own)
            self._users, self._found = users, tuple(islice(all_of_it, _SHAPES_MAX))
        return self._found
