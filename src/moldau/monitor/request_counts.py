"""How many requests came, by API key and version.

The count of each is an object of its own, which hot code keeps: adding one is then an attribute, and no
look-up by a pair.
"""

from collections.abc import Iterator, Mapping


class RequestCount:
    """The requests of one API in one version."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class RequestCounts(Mapping[tuple[int, int], int]):
    """(API key, version) -> how many requests, of those that came at all."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], RequestCount] = {}

    def of(self, api_key: int, version: int) -> RequestCount:
        """The count to add to."""
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
