"""Subjects and contexts: how a subject's name says in which context it lies.

    orders          subject orders in the default context "."
    :.prod:orders   subject orders in the context .prod
    :.prod:         the context itself, where settings for all its subjects are kept
    :*:orders       orders in every context (only in searches)
    :.__GLOBAL:     settings for all contexts that have none of their own; no subject is registered there

Facts: Confluent's QualifiedSubject. Tenants, which its cloud puts before the context, are not here.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.services.registry.problems import Code, RegistryProblem

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
ANY_CONTEXT = "*"
_PREFIX = ":."
_ANY_PREFIX = ":*:"
_RESERVED = ("__GLOBAL", "__EMPTY")


class Name(NamedTuple):
    """A subject, or a search for some, taken apart."""

    context: str
    subject: str

    @property
    def qualified(self) -> str:
        """The name as it is written."""
        return qualify(self.context, self.subject)


def parse_name(name: str) -> Name:
    """Take a name apart; any text is one."""
    if name.startswith(_PREFIX):
        context, _, subject = name[1:].partition(":")
        return Name(context, subject)
    if name.startswith(_ANY_PREFIX):
        return Name(ANY_CONTEXT, name[len(_ANY_PREFIX) :])
    return Name(DEFAULT_CONTEXT, name)


def qualify(context: str, subject: str) -> str:
    """The name of a subject of a context."""
    return subject if context == DEFAULT_CONTEXT else f":{context}:{subject}"


def normal_name(name: str) -> str:
    """The one spelling of a name: `:.:orders` is `orders`."""
    return parse_name(name).qualified


def context_of(name: str) -> str:
    """The context in which a subject lies."""
    return parse_name(name).context


def qualified_like(name: str, parent: str) -> str:
    """`name`, which lies in the context of `parent` unless it names one itself."""
    parsed = parse_name(name)
    return qualify(context_of(parent), name) if parsed.context == DEFAULT_CONTEXT else parsed.qualified


def parse_context(text: str) -> str:
    """The context of a path or parameter: `prod`, `.prod` and `:.prod:` are the same."""
    context = text.removeprefix(":").removesuffix(":")
    if ":" in context:
        raise RegistryProblem(Code.INVALID_SUBJECT, f"The context {text!r} is not valid: it has a colon")
    return context if context.startswith(".") else f".{context}"


def check_subject(name: str, *, is_of_settings: bool = False) -> str:
    """The name as it is kept. RegistryProblem for one that nobody may use; the global context is for
    settings only.
    """
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in name):
        raise _invalid(name)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _invalid(name) from None
    parsed = parse_name(name)
    if parsed.subject in _RESERVED or parsed.context == ANY_CONTEXT:
        raise _invalid(name)
    if parsed.context == GLOBAL_CONTEXT and not is_of_settings:
        raise _invalid(name)
    return parsed.qualified


def _invalid(name: str) -> RegistryProblem:
    shown = name.encode("ascii", "backslashreplace").decode()
    return RegistryProblem(Code.INVALID_SUBJECT, f"The specified subject '{shown}' is not a valid.")
