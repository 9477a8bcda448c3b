"""The changes that links to other clusters and mirror topics are made of (mirrors.py)."""

from collections.abc import Mapping
from typing import NamedTuple

from moldau.broker.metadata.changes import Draft
from moldau.broker.metadata.mirrors import MirrorLink, MirrorTopic


class MirrorLinkSet(NamedTuple):
    """A link was made, or has other settings."""

    name: str
    settings: Mapping[str, str]

    def __repr__(self) -> str:
        return f"MirrorLinkSet({self.name!r}, {sorted(self.settings)})"

    def apply(self, draft: Draft) -> None:
        draft.edit_mirror_links()[self.name] = MirrorLink(self.name, self.settings)


class MirrorLinkRemoved(NamedTuple):
    """A link was removed; its topics were before."""

    name: str

    def apply(self, draft: Draft) -> None:
        draft.edit_mirror_links().pop(self.name, None)


class MirrorTopicSet(NamedTuple):
    """A topic became a mirror, or its state as one changed."""

    topic: str
    mirror: MirrorTopic

    def apply(self, draft: Draft) -> None:
        draft.edit_mirrors()[self.topic] = self.mirror


class MirrorTopicRemoved(NamedTuple):
    """A topic is no mirror any more, and remembers nothing of having been one."""

    topic: str

    def apply(self, draft: Draft) -> None:
        draft.edit_mirrors().pop(self.topic, None)
