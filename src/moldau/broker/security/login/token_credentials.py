"""The SCRAM credential of a delegation token: its id is the user name, its HMAC in base64 the password.

Nothing of it is stored. Salt and credential follow from the token's id and the cluster's secret, so they are
the same on every broker; the salted password takes some milliseconds, on a worker, and is kept for the next
logins. A token that has ended, or is not in the metadata any more, has no credential.
"""

import base64
from collections import OrderedDict
from collections.abc import Callable

from moldau.broker.metadata.delegation_tokens import DelegationToken
from moldau.broker.metadata.image import Image
from moldau.broker.security.login.outside import Run
from moldau.broker.security.login.scram import Known
from moldau.broker.security.tokens.signing import TokenSigner
from moldau.common.core.clock import Clock
from moldau.common.core.waiting import Answer
from moldau.common.credentials.scram import ITERATIONS_DEFAULT, ScramMechanism, credential_of, salted_password
from moldau.common.credentials.scram_credential import ScramCredential

_SALT_BYTES = 16
_KEPT_MAX = 1_024


class TokenCredentials:
    """Finds the credentials of tokens, for one mechanism."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        signer: TokenSigner,
        image: Callable[[], Image],
        clock: Clock,
        run: Run,
    ) -> None:
        self._mechanism = mechanism
        self._signer = signer
        self._image = image
        self._clock = clock
        self._run = run
        self._kept: OrderedDict[str, ScramCredential] = OrderedDict()

    def find(self, token_id: str) -> Answer[Known | None]:
        """What is known of a token; None: nobody can log in with it."""
        token = self._valid(token_id)
        if token is None:
            return None
        kept = self._kept.get(token_id)
        if kept is not None:
            self._kept.move_to_end(token_id)
            return _known(token, kept)
        return self._computed(token_id)

    def _valid(self, token_id: str) -> DelegationToken | None:
        token = self._image().delegation_tokens.get(token_id) if self._signer.enabled else None
        return token if token is not None and token.is_valid_at(self._clock.now_ms()) else None

    async def _computed(self, token_id: str) -> Known | None:
        credential = await self._run(lambda: self._credential(token_id))
        self._kept[token_id] = credential
        if len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        token = self._valid(token_id)  # it may have been removed meanwhile
        return None if token is None else _known(token, credential)

    def _credential(self, token_id: str) -> ScramCredential:
        mechanism, signer = self._mechanism, self._signer
        salt = signer.derived(f"{mechanism.name}:{token_id}", _SALT_BYTES)
        password = base64.b64encode(signer.hmac_of(token_id)).decode()
        salted = salted_password(mechanism, password, salt, ITERATIONS_DEFAULT)
        return credential_of(mechanism, salted, salt, ITERATIONS_DEFAULT)


def _known(token: DelegationToken, credential: ScramCredential) -> Known:
    return Known(credential, token.owner, token.expires_ms, token.token_id)
