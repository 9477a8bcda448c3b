"""Lists: subjects, versions, schemas, contexts, always a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from moldau.services.registry.names import ANY_CONTEXT, DEFAULT_CONTEXT, parse_name, qualified_like
from moldau.services.registry.operations.core import Core, page, subject_not_found
from moldau.services.registry.operations.views import schema_view
from moldau.services.registry.state.body import Version

EVERYTHING = f":{ANY_CONTEXT}:"
"""The prefix of every subject."""
Visible = Callable[[str], bool]
"""Whether whoever asks may know of a subject."""


def list_subjects(
    core: Core,
    prefixes: Sequence[str],
    *,
    deleted: bool,
    deleted_only: bool,
    offset: int,
    limit: int,
    visible: Visible | None,
) -> list[str]:
    """Subjects that have a version that counts; with `deleted_only` those that have no other ones."""
    is_live = False if deleted_only else None if deleted else True
    names = _names(core, prefixes, is_live)
    if visible is not None:
        names = [*filter(visible, names)]
    settings = core.settings
    return page(
        names, offset, limit, settings.subject_search_default_limit, settings.subject_search_max_limit
    )


def _names(core: Core, prefixes: Sequence[str], is_live: bool | None) -> list[str]:
    """Subjects that begin with one of some prefixes, each once."""
    found = [_names_with(core, prefix, is_live) for prefix in prefixes]
    return found[0] if len(found) == 1 else sorted({*chain(*found)}, key=parse_name)


def _names_with(core: Core, prefix: str, is_live: bool | None) -> list[str]:
    """Subjects that begin with a prefix; one that ends within a context's name means all such contexts."""
    parsed = parse_name(prefix)
    if not (prefix.startswith(":.") and prefix.count(":") == 1):
        return core.state.names(parsed.context, parsed.subject, is_live=is_live)
    contexts = (DEFAULT_CONTEXT, *core.state.contexts())
    fitting = [each for each in contexts if each.startswith(parsed.context)]
    return [name for context in fitting for name in core.state.names(context, is_live=is_live)]


def list_versions(
    core: Core,
    subject: str,
    *,
    deleted: bool,
    deleted_only: bool,
    as_negative: bool,
    offset: int,
    limit: int,
) -> list[int]:
    """The versions of a subject. RegistryProblem (SUBJECT_NOT_FOUND)."""
    if not core.state.has_subjects(subject, deleted=deleted or deleted_only or as_negative):
        raise subject_not_found(subject)
    found = core.state.versions(subject)
    if deleted_only:
        numbers = [each.version for each in found if each.deleted]
    elif as_negative:
        numbers = [-each.version if each.deleted else each.version for each in found]
    else:
        numbers = [each.version for each in found if deleted or not each.deleted]
    settings = core.settings
    default, most = settings.subject_version_search_default_limit, settings.subject_version_search_max_limit
    return page(numbers, offset, limit, default, most)


def list_schemas(
    core: Core,
    prefixes: Sequence[str],
    *,
    deleted: bool,
    latest_only: bool,
    aliases: bool,
    rule_type: str | None,
    offset: int,
    limit: int,
    visible: Visible | None,
) -> list[dict[str, Any]]:
    """All versions of subjects with a prefix; with `aliases` also those that an alias with it stands for."""
    names = _names(core, prefixes, None)
    known = _aliases(core, prefixes) if aliases else {}
    if known:
        names = sorted({*names, *known}, key=parse_name)
    if visible is not None:
        names = [*filter(visible, names)]
    settings = core.settings
    count = limit if 0 < limit <= settings.schema_search_max_limit else settings.schema_search_default_limit
    start = max(offset, 0)
    shown = islice(_versions(core, names, deleted, latest_only, rule_type), start, start + count)
    return [
        {**schema_view(core, each), **({"aliases": known[each.subject]} if each.subject in known else {})}
        for each in shown
    ]


def _versions(
    core: Core, names: Iterable[str], deleted: bool, latest_only: bool, rule_type: str | None
) -> Iterator[Version]:
    """The versions of subjects, lazily: a page needs a few of very many."""
    for name in names:
        versions = [each for each in core.state.versions(name) if deleted or not each.deleted]
        for version in versions[-1:] if latest_only else versions:
            if rule_type is None or _has_rule(version, rule_type):
                yield version


def _aliases(core: Core, prefixes: Sequence[str]) -> dict[str, list[str]]:
    """The aliases that start with one of some prefixes, by the subject that they stand for."""
    searched = [*map(parse_name, prefixes)]
    found: dict[str, list[str]] = {}
    for name, config in sorted(core.state.configs().items()):
        alias, own = config.get("alias"), parse_name(name)
        in_scope = any(
            each.context in (ANY_CONTEXT, own.context) and own.subject.startswith(each.subject)
            for each in searched
        )
        if isinstance(alias, str) and alias and name and in_scope:
            found.setdefault(qualified_like(alias, name), []).append(name)
    return found


def _has_rule(version: Version, rule_type: str) -> bool:
    rules = version.body.rule_set or {}
    lists = ("migrationRules", "domainRules", "encodingRules")
    return any(rule.get("type") == rule_type for name in lists for rule in rules.get(name, ()))


def list_contexts(core: Core, prefix: str, offset: int, limit: int, visible: Visible | None) -> list[str]:
    """The contexts, the default one first; for who may not know all subjects, those with one of theirs."""
    names = [name for name in (DEFAULT_CONTEXT, *core.state.contexts()) if name.startswith(prefix)]
    if visible is not None:
        names = [name for name in names if any(map(visible, core.state.names(name)))]
    settings = core.settings
    return page(
        names, offset, limit, settings.context_search_default_limit, settings.context_search_max_limit
    )
