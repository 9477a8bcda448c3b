"""Builds the parts of a broker's security, for the stages, which know what they are wired to.

Each function makes one part out of the settings and the machine, and imports it only then: a broker without
security does not load it. What has to be stopped again is added to `stops`, in the order of starting.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.host import Host
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.view import MetadataView
from moldau.broker.stages.stops import Stops
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.sources import StaticSettings

if TYPE_CHECKING:
    from moldau.broker.controller.policies import Policies
    from moldau.broker.peers.late import LatePeers
    from moldau.broker.security.audit import AuditTrail, Sink
    from moldau.broker.security.authorizer import Authorizer
    from moldau.broker.security.login.logins import Logins
    from moldau.broker.security.quotas.limits import ClientQuotas
    from moldau.broker.security.tokens.signing import TokenSigner
    from moldau.broker.server.http_tls import HttpTls
    from moldau.broker.server.listener_tls import ListenerTls
    from moldau.common.credentials.jwt.key_sources import KeySources
    from moldau.common.credentials.tls.handshakes import Handshakes

_LOGIN_THREADS = 2


def make_tls(host: Host, name: str, protocol: str) -> "ListenerTls":
    """The TLS of one listener; nothing is read yet."""
    from moldau.broker.server.listener_tls import ListenerTls

    return ListenerTls(
        name, protocol, host.files, lambda blocking: host.loop.run_in_executor(host.workers, blocking)
    )


def make_handshakes(host: Host) -> "Handshakes":
    """The workers in which handshakes are computed, for all listeners."""
    from moldau.common.credentials.tls.handshakes import Handshakes

    return Handshakes(host.loop, host.pool)


async def secure_http(host: Host, settings: BrokerSettings, *, has_port: bool) -> "HttpTls | None":
    """The TLS and the logins of the HTTP port, checked before anything is served. SettingError."""
    if settings.moldau_http_users:
        from moldau.broker.server.http_login import users_of

        users_of(settings.moldau_http_users)
    if settings.moldau_http_security_protocol != "SSL" or not has_port:
        return None
    from moldau.broker.server.http_tls import HttpTls

    tls = make_tls(host, "HTTP", "HTTPS")
    await tls.load(settings)
    return HttpTls(tls, make_handshakes(host), host.timers)


def make_policies(host: Host, static: StaticSettings, stops: Stops) -> "Policies | None":
    """The user's policies about topics and settings; None: there are none. SettingError."""
    settings = static.broker
    names = (settings.create_topic_policy_class_name, settings.alter_config_policy_class_name)
    if not any(names):
        return None
    from moldau.broker.controller.policies import ALTER, CREATE, load_policies
    from moldau.common.core.workers import DaemonExecutor

    policies = load_policies(
        dict(zip((CREATE, ALTER), names, strict=True)),
        static.texts,
        timeout_ms=settings.moldau_policy_timeout_ms,
        thread=DaemonExecutor("moldau-policies"),
        timers=host.timers,
    )
    if policies is not None:
        stops.add("policies", policies.close)
    return policies


def make_audit(
    host: Host,
    settings: BrokerSettings,
    image: Callable[[], Image],
    peers: "LatePeers",
    create_topic: Callable[[str], Awaitable[str | None]],
    stops: Stops,
) -> "AuditTrail | None":
    """Who is told of refusals and administrative changes; None: nobody. `peers` is for a topic."""
    topic = settings.moldau_audit_topic
    if not (settings.authorizer_class_name or topic):
        return None
    from moldau.broker.security.audit import AuditTrail, LogSink

    sink: Sink = LogSink()
    if topic:
        from moldau.broker.peers.audit_topic import TopicSink

        sink = to_topic = TopicSink(
            topic, sink, settings.node_id, image, host, peers, create_topic, host.loop.create_task
        )
        stops.add("connection of the audit", peers.close)
        stops.add("audit topic", to_topic.stop)
    trail = AuditTrail(
        sink,
        host.timers,
        host.clock.now_ms,
        node_id=settings.node_id,
        allowed_too=settings.moldau_audit_allowed_enable,
        untold_topic=topic,
    )
    stops.add("audit", trail.close)
    return trail


def make_authorizer(
    settings: BrokerSettings,
    metadata: MetadataView,
    audit: "AuditTrail | None",
    rights_changed: Callable[[], None],
) -> "Authorizer | None":
    """Who may do what, in step with the metadata; None where no authorizer is set."""
    if not settings.authorizer_class_name:
        return None
    from moldau.broker.security.authorizer import Authorizer
    from moldau.common.core.principals import parse_super_users

    authorizer = Authorizer(
        super_users=parse_super_users(settings.super_users),
        allow_everyone=settings.allow_everyone_if_no_acl_found,
        audit=audit,
        rights_changed=rights_changed,
    )
    authorizer.image_changed(EMPTY_IMAGE, metadata.image, ())
    metadata.subscribe(authorizer.image_changed, "the authorizer")
    return authorizer


async def check_security_of_peers(
    host: Host, static: BrokerSettings, settings: BrokerSettings, first_listener: str
) -> None:
    """SettingError if this broker could not connect to another one."""
    from moldau.common.settings.listeners import inter_broker_listener, protocol_map

    name = inter_broker_listener(static) or first_listener
    if protocol_map(settings).get(name) != "PLAINTEXT":
        from moldau.broker.peers.security import check

        await host.loop.run_in_executor(host.workers, check, settings)


class LoginParts(NamedTuple):
    """The logins, and the keys of token issuers that they check with."""

    logins: "Logins"
    keys: "KeySources"


def make_logins(
    listener_names: Sequence[str],
    host: Host,
    settings: Callable[[], BrokerSettings],
    image: Callable[[], Image],
    token_signer: "TokenSigner",
    stops: Stops,
) -> LoginParts:
    """The logins of these listeners. SettingError: a mechanism lacks something."""
    from moldau.broker.security.login.logins import Logins
    from moldau.broker.security.login.outside import Outside
    from moldau.common.credentials.jwt.key_sources import KeySources

    keys = KeySources(host.fetch, host.files, host.pool, host.loop, host.clock, host.timers)
    stops.add("keys of token issuers", keys.close)
    # Not those that sync logs: whoever floods the broker with logins must not hold syncs up.
    workers = host.pool(_LOGIN_THREADS)
    stops.add("workers of logins", lambda: workers.shutdown(wait=False, cancel_futures=True))
    outside = Outside(lambda blocking: host.loop.run_in_executor(workers, blocking), keys, token_signer)
    logins = Logins(settings, image, host.clock, host.random, outside)
    for name in listener_names:
        logins.offered(name)
    return LoginParts(logins, keys)


def make_quotas(host: Host, static: BrokerSettings) -> "ClientQuotas":
    """What clients may use, with the windows that the settings give."""
    from moldau.broker.security.quotas.limits import ClientQuotas
    from moldau.broker.security.quotas.rate import Windows

    return ClientQuotas(
        host.clock.monotonic_ms,
        host.seconds,
        Windows(static.quota_window_num, static.quota_window_size_seconds * 1_000),
        Windows(static.controller_quota_window_num, static.controller_quota_window_size_seconds * 1_000),
    )
