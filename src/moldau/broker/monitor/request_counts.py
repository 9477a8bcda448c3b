"""Counts requests by API key and version.

Each count is an object, which hot code keeps: counting is then an attribute access, without a lookup.
"""

from collections.abc import Iterator, Mapping


class RequestCount:
    """The requests of one API in one version."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class RequestCounts(Mapping[tuple[int, int], int]):
    """(API key, version) -> number of requests, for those that occurred."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], RequestCount] = {}

    def of(self, api_key: int, version: int) -> RequestCount:
        """The count of one API and version."""
        found = self._counts.get((api_key, version))
        if found is None:
            found = self._counts[api_key, version] = RequestCount()
        return found

    def __getitem__(self, key: tuple[int, int]) -> int:
        return self._counts[key].value

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)
