"""Transforms and predicates: functions on batches, between a converter and a connector.

A function of one's own is a transform: `transforms.x.type=module:function`, given a `Batch`, giving a batch
or several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from moldau.connect.batch import Batch
from moldau.connect.settings import Setting


class Transform(ABC):
    """Base of transforms. Keeps no state that depends on how records were cut into batches."""

    settings: ClassVar[Sequence[Setting]] = ()
    version: ClassVar[str] = "1"

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Take the settings behind `transforms.NAME.`, typed."""
        self.config = settings

    @abstractmethod
    def apply(self, batch: Batch) -> Sequence[Batch]:
        """What becomes of these records, in order; none of them is an empty answer. BadRecord with its row.
        What becomes of these records, in order; none of them is an empty answer. BadRecord with its row."""

    def close(self) -> None:  # noqa: B027
        """Let go of what it holds."""


class Predicate(ABC):
    """Base of predicates: which records a transform sees."""

    settings: ClassVar[Sequence[Setting]] = ()
    version: ClassVar[str] = "1"

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Take the settings behind `predicates.NAME.`, typed."""
        self.config = settings

    @abstractmethod
    def test(self, batch: Batch) -> Sequence[bool]:
        """A row a row."""
