"""Makes GSSAPI logins of a listener's settings: the broker's keytab, and the rules for users' names.

listener.name.<listener>.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/host.example.com@REALM";
"""

from moldau.broker.security.kerberos_names import KerberosNames, RuleError
from moldau.broker.security.login.gssapi import Acceptor, Gssapi, KerberosError
from moldau.broker.security.login.parts import Parts
from moldau.broker.security.login.steps import Begin
from moldau.common.settings.rows import SettingError

RULES = "sasl.kerberos.principal.to.local.rules"


def gssapi(parts: Parts) -> Begin:
    """What begins a login. SettingError: no keytab or rule that can be used."""
    prefix = f"listener.name.{parts.listener.lower()}.gssapi.sasl.jaas.config"
    jaas, outside = parts.jaas, parts.outside
    keytab = None if jaas is None else jaas.options.get("keyTab")
    if jaas is None or not keytab:
        raise SettingError(
            "sasl.jaas.config",
            f"the listener {parts.listener} offers GSSAPI, and has no keytab for it: set {prefix}="
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            'keyTab="FILE" principal="kafka/HOST@REALM"; or name other mechanisms in sasl.enabled.mechanisms',
        )
    assert outside is not None, "node.py passes it"
    try:
        acceptor = Acceptor(keytab.removeprefix("file:").removeprefix("FILE:"), jaas.options.get("principal"))
    except KerberosError as error:
        raise SettingError(prefix, f"the listener {parts.listener} cannot offer GSSAPI: {error}") from None
    try:
        names = KerberosNames(parts.settings.sasl_kerberos_principal_to_local_rules, acceptor.realm)
    except RuleError as error:
        raise SettingError(RULES, f"{RULES}: {error}") from None
    run = outside.run
    return lambda: Gssapi(acceptor, names, run)
