"""How a notification leaves: an HTTP request, a form for Slack, a mail. Blocking; NotDelivered.

Secrets (tokens, passwords, webhooks' URLs) stand in no message and no log line.
"""

from __future__ import annotations

import json
import smtplib
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from moldau.common.settings.rows import SettingError
from moldau.services.lag.notify.messages import Facts, Text, json_text, plain_text, template_of

Deliver = Callable[[Facts], None]
_SLACK_API = "https://slack.com/api/chat.postMessage"
_ANSWER_BYTES_MAX = 64 * 1024


class NotDelivered(Exception):
    """It could not be sent; the message says why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A login is not sent to where an answer points."""

    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        return None


def channel_of(name: str, kind: str, given: Mapping[str, Any]) -> Deliver:
    """The channel of a notifier's section. SettingError."""
    if kind == "null":
        return lambda facts: None
    if kind == "email":
        return _mail(name, given)
    return _slack(name, given) if kind == "slack" else _http(name, given)


def _texts(given: Mapping[str, Any], default: Text) -> Callable[[Facts], str]:
    opening = (
        template_of(str(given["template-open"]), "template-open") if given.get("template-open") else default
    )
    closing = (
        template_of(str(given["template-close"]), "template-close")
        if given.get("template-close")
        else default
    )
    return lambda facts: (closing if facts["closes"] else opening)(facts)


def _http(name: str, given: Mapping[str, Any]) -> Deliver:
    """url-open, url-close, method-open, method-close, headers, timeout, cafile."""
    opens = _url(name, given, "url-open")
    closes = _url(name, given, "url-close") if given.get("url-close") else opens
    text, seconds, context = _texts(given, json_text), _seconds(given), _context(given)
    headers = {"Content-Type": "application/json"} | {
        str(key): str(value) for key, value in dict(given.get("headers", {})).items()
    }

    def deliver(facts: Facts) -> None:
        url = closes if facts["closes"] else opens
        method = str(given.get("method-close" if facts["closes"] else "method-open", "POST")).upper()
        _send(url, method, text(facts).encode(), headers, seconds, context)

    return deliver


def _slack_text(facts: Facts) -> str:
    """Our own text, in which no group's name becomes a link, or calls everybody (`<!channel>`)."""
    return plain_text(facts).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack(name: str, given: Mapping[str, Any]) -> Deliver:
    """webhook, or token and channel; username, icon-emoji, icon-url."""
    token = str(given.get("token", ""))
    url = _url(name, given, "webhook") if given.get("webhook") else _SLACK_API
    if url == _SLACK_API and not (token and given.get("channel")):
        raise SettingError("webhook", f"[notifier.{name}] needs a webhook, or a token and a channel")
    text, seconds, context = _texts(given, _slack_text), _seconds(given), _context(given)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    form = {
        key.replace("-", "_"): str(given[key])
        for key in ("channel", "username", "icon-emoji", "icon-url")
        if given.get(key)
    }

    def deliver(facts: Facts) -> None:
        body = json.dumps({**form, "text": text(facts)}).encode()
        answer = _send(url, "POST", body, headers, seconds, context)
        if url == _SLACK_API:
            try:
                said = json.loads(answer)
            except ValueError:
                said = {}
            if not said.get("ok"):
                raise NotDelivered(f"Slack refuses the message: {said.get('error', 'no reason is given')}")

    return deliver


def _mail(name: str, given: Mapping[str, Any]) -> Deliver:
    """server, port, from, to, auth-type (plain or empty), username, password, tls (starttls, tls, off)."""
    for setting in ("server", "from", "to"):
        if not given.get(setting):
            raise SettingError(setting, f"[notifier.{name}] names no {setting}")
    text, seconds, context = _texts(given, plain_text), _seconds(given), _context(given)
    port = int(given.get("port", 25))
    encryption = str(given.get("tls", "tls" if port == 465 else "starttls" if port == 587 else "off"))
    recipients = [each.strip() for each in str(given["to"]).split(",")]

    def deliver(facts: Facts) -> None:
        mail = EmailMessage()
        verb = "OK again" if facts["closes"] else facts["status"]
        mail["Subject"] = " ".join(f"[{facts['cluster']}] {facts['group']}: {verb}".split())
        mail["From"], mail["To"] = str(given["from"]), ", ".join(recipients)
        mail.set_content(text(facts))
        make: Any = smtplib.SMTP_SSL if encryption == "tls" else smtplib.SMTP
        more = {"context": context} if encryption == "tls" else {}
        try:
            with make(str(given["server"]), port, timeout=seconds, **more) as session:
                if encryption == "starttls":
                    session.starttls(context=context)
                if given.get("username"):
                    session.login(str(given["username"]), str(given.get("password", "")))
                session.send_message(mail)
        except (OSError, smtplib.SMTPException) as problem:
            reason = (
                type(problem).__name__ if isinstance(problem, smtplib.SMTPAuthenticationError) else problem
            )
            raise NotDelivered(f"the mail server {given['server']}:{port}: {reason}") from None

    return deliver


def _url(name: str, given: Mapping[str, Any], setting: str) -> str:
    url = str(given.get(setting, ""))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(setting, f"[notifier.{name}] {setting} is no http: or https: address")
    return url


def _seconds(given: Mapping[str, Any]) -> float:
    return float(given.get("timeout", 5))


def _context(given: Mapping[str, Any]) -> ssl.SSLContext:
    if given.get("noverify"):
        raise SettingError("noverify", "noverify: certificates are always checked; name a cafile")
    try:
        return ssl.create_default_context(cafile=str(given["cafile"]) if given.get("cafile") else None)
    except (OSError, ssl.SSLError) as problem:
        raise SettingError("cafile", f"cafile {given.get('cafile')}: {problem}") from None


def _send(
    url: str,
    method: str,
    body: bytes,
    headers: Mapping[str, str],
    seconds: float,
    context: ssl.SSLContext,
) -> bytes:
    asked = urllib.request.Request(url, body, dict(headers), method=method)
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    host = urlsplit(url).hostname
    try:
        with opener.open(asked, timeout=seconds) as answer:
            data: bytes = answer.read(_ANSWER_BYTES_MAX)
            return data
    except urllib.error.HTTPError as problem:
        raise NotDelivered(f"{host} answers {problem.code} {problem.reason}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise NotDelivered(f"{host} cannot be reached: {reason}") from None
