"""Which settings of its Kafka clients a connector may change: `connector.client.config.override.policy`.

    All         any (Kafka's default, and ours)
    None        none
    Principal   who it logs in as: sasl.jaas.config, sasl.mechanism, security.protocol
    Allowlist   those of connector.client.config.override.allowlist

What a connector says stands under producer.override., consumer.override. and admin.override. (KIP-458).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from moldau.connect.settings import Importance, Setting, SettingType
from moldau.services.connect.validation.infos import HIDDEN, Value

PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
_PRINCIPAL = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_SECRET_ENDS = ("password", "jaas.config", "secret", "key")


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """A worker's."""

    name: str = "All"
    allowed: Collection[str] = ()
    """Of Allowlist."""

    def permits(self, setting: str) -> bool:
        """Whether a connector may change this setting of a client."""
        match self.name.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy").lower():
            case "none":
                return False
            case "principal":
                return setting in _PRINCIPAL
            case "allowlist":
                return setting in self.allowed
        return True

    def values(self, given: Mapping[str, str]) -> Iterator[Value]:
        """The overrides of a configuration, those with errors that are not permitted."""
        for name, text in given.items():
            prefix = next((each for each in PREFIXES if name.startswith(each)), None)
            if prefix is None:
                continue
            setting = name.removeprefix(prefix)
            row = Setting(name, SettingType.STRING, "Of the connector's Kafka client.", None, Importance.LOW)
            shown = HIDDEN if setting.endswith(_SECRET_ENDS) else text
            value = Value(row, name, shown)
            if not self.permits(setting):
                value.errors.append(
                    f"The '{self.name}' policy does not allow '{setting}' to be overridden in the connector "
                    "configuration."
                )
            yield value
