"""Filter: leaves out every record it sees; with a predicate, those for which it is true."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.connect.batch import Batch
from moldau.connect.transform import Transform


class Filter(Transform):
    """Drops all records."""

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        return []
