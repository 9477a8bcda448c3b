"""Placeholders in a connector's settings, filled in when it is started, and seen by nobody else.

    ${file:/run/db.properties:password}   ${dir:/run/secrets:password}   ${env:PASSWORD}

Which of them there are, and where they may look, is the worker's `config.providers`. All three read anew at
each start; none of them says how long its values hold, so that `config.action.reload` has nothing to wait
for (as with the same three in Kafka).
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.common.settings.providers import DECLARED, fill_in
from moldau.common.settings.rows import SettingError
from moldau.connect.errors import ConnectError


class Secrets:
    """Fills in what settings name."""

    def __init__(self, worker: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """`worker`: the worker's settings. SettingError: a provider is not known."""
        self._providers = {name: value for name, value in worker.items() if name.startswith(DECLARED)}
        self._environment = environment
        fill_in(self._providers, environment)

    def filled(self, config: Mapping[str, str]) -> dict[str, str]:
        """The settings as the runtime gets them. ConnectError names what is missing, and no value."""
        given = {name: value for name, value in config.items() if not name.startswith(DECLARED)}
        try:
            found = fill_in({**given, **self._providers}, self._environment)
        except SettingError as problem:
            raise ConnectError(problem.sentence) from None
        return {name: found[name] for name in given}
