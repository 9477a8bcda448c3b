"""A function of one's own as a transform: `transforms.x.type=module:function`.

    def only_big(batch):                def upper(batch):
        return batch.take([...])            return [replace(batch, topic=batch.topic.upper())]

It is given a `Batch` and returns one, several, or None for none. Settings behind `transforms.x.` are given as
keyword arguments, points and dashes as underscores, if the function takes any.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.errors import ConnectError
from moldau.connect.transform import Transform


class FunctionTransform(Transform):
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._arguments: dict[str, Any] = {}

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the function does not take a setting, or needs one."""
        super().configure(settings)
        self._arguments = {name.replace(".", "_").replace("-", "_"): text for name, text in settings.items()}
        try:
            inspect.signature(self.function).bind(None, **self._arguments)
        except TypeError as error:
            raise ConnectError(f"the function {self.function.__qualname__}: {error}") from None

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        made = self.function(batch, **self._arguments)
        if made is None:
            return []
        found = [made] if isinstance(made, Batch) else list(made)
        for each in found:
            if not isinstance(each, Batch):
                raise ConnectError(
                    f"the function {self.function.__qualname__} returned a {type(each).__name__}: return a "
                    "Batch, a list of them, or None"
                )
        return found
