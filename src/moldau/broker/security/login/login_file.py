"""What a broker takes from the file of logins that KAFKA_OPTS names: settings of its listeners, and its login
at ZooKeeper.

Sections become settings as they could stand in server.properties, which go before them, as in Kafka:

    inside.KafkaServer, KafkaServer     listener.name.inside.<mechanism>.sasl.jaas.config
    Client                              moldau.zookeeper.sasl.jaas.config
"""

from collections.abc import Mapping

from moldau.broker.metadata.zookeeper.options import sasl_login
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.jaas import MODULES
from moldau.common.credentials.login_file import OPTION, VARIABLE, LoginFile, login_file
from moldau.common.settings.listeners import protocol_map
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import StaticSettings

ZOOKEEPER_LOGIN = "moldau.zookeeper.sasl.jaas.config"


def with_login_file(static: StaticSettings, environment: Mapping[str, str]) -> StaticSettings:
    """The settings, and those that the file adds to them. SettingError: it cannot be read."""
    if OPTION not in environment.get(VARIABLE, ""):
        return static
    try:
        found = login_file(environment)
    except CredentialsError as error:
        raise SettingError(VARIABLE, str(error)) from None
    if found is None:
        return static
    of_listeners = _of_listeners(static, found)
    broker = static.broker.replace(prefixed={**of_listeners, **static.broker.prefixed})
    texts = {**of_listeners, **static.texts}
    of_zookeeper = found.sections.get(found.zookeeper_section or "", ())
    if of_zookeeper and ZOOKEEPER_LOGIN not in static.texts and broker.zookeeper_connect:
        section = (
            f"the section {found.zookeeper_section} of the file of logins {found.path} (the login at "
            "ZooKeeper, left out with -Dzookeeper.sasl.client=false)"
        )
        sasl_login(of_zookeeper[0].text, VARIABLE, section)  # what is wrong is told by its place
        texts[ZOOKEEPER_LOGIN] = of_zookeeper[0].text
        broker = broker.replace(moldau_zookeeper_sasl_jaas_config=texts[ZOOKEEPER_LOGIN])
    return StaticSettings(broker, texts, static.warnings)


def _of_listeners(static: StaticSettings, found: LoginFile) -> dict[str, str]:
    """The logins of each listener with SASL, for whatever mechanisms it offers now or later."""
    texts = {}
    for listener, protocol in protocol_map(static.broker).items():
        if protocol.startswith("SASL"):
            name = listener.lower()
            for mechanism in MODULES:
                entry = found.entry(mechanism, f"{name}.KafkaServer", "KafkaServer")
                if entry is not None:
                    texts[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = entry.text
    return texts
