"""One request to a schema registry: any of its paths. What it refuses becomes a sentence that ends with what
to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.http_service import HttpService, NotJson, Unanswered, path_part

__all__ = ["Registry", "RegistryRefusal", "path_part"]

_PAGE = 1_000

_ADVICE = {
    401: "log in with -R basic.auth.user.info=NAME:PASSWORD or -R bearer.auth.token=TOKEN",
    40301: "log in as somebody who may (-R basic.auth.user.info=...), or ask for the right",
    40401: "`moldau schemas list` names the subjects; --deleted also those that were deleted",
    40402: "`moldau schemas show SUBJECT --versions` lists the versions",
    40403: "`moldau schemas list` shows what is registered",
    40404: "it was deleted before: add --permanent to delete it for good",
    40405: "delete it first without --permanent, then with it",
    40406: "it was deleted before: add --permanent to delete it for good",
    40407: "delete it first without --permanent, then with it",
    409: "`moldau schemas check` names each difference; a default makes a new field readable",
    42205: "`moldau schemas show SUBJECT` shows its mode; a registry may also be read-only as a whole",
    42206: "other schemas refer to it: delete those first",
    50003: "the primary instance cannot be reached: see /health of each instance",
    50004: "no instance may write at the moment: see /health of each instance",
}


class RegistryRefusal(CommandError):
    """The registry refused a request; `error_code` is its code."""

    def __init__(self, error_code: int, message: str) -> None:
        advice = _ADVICE.get(error_code)
        sentence = f"the registry refused: {message.rstrip('.')} ({error_code})"
        super().__init__(f"{sentence}; {advice}" if advice else sentence)
        self.error_code = error_code


class Registry:
    """A registry at one or several addresses."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """UsageError: a setting is wrong."""
        self._service = HttpService(conf, "application/vnd.schemaregistry.v1+json", "-R")

    @property
    def urls(self) -> list[str]:
        """The addresses, in the order in which they are tried."""
        return self._service.urls

    def get(self, path: str, **query: Any) -> Any:
        """GET. RegistryRefusal, CommandError."""
        return self.ask("GET", path, None, query)

    def post(self, path: str, body: Any, **query: Any) -> Any:
        """POST. RegistryRefusal, CommandError."""
        return self.ask("POST", path, body, query)

    def delete(self, path: str, **query: Any) -> Any:
        """DELETE. RegistryRefusal, CommandError."""
        return self.ask("DELETE", path, None, query)

    def pages(self, path: str, **query: Any) -> Iterator[Any]:
        """The rows of a list, fetched a page at a time."""
        offset = 0
        while True:
            rows = self.get(path, **query, offset=offset, limit=_PAGE)
            yield from rows
            # A registry that knows no paging gives all at once, and again whenever it is asked.
            if len(rows) != _PAGE:
                return
            offset += len(rows)

    def ask(self, method: str, path: str, body: Any, query: Mapping[str, Any]) -> Any:
        """The JSON of the first address that answers. RegistryRefusal, CommandError."""
        try:
            status, value = self._service.ask(method, path, body, query)
        except Unanswered as nobody:
            raise CommandError(
                f"no schema registry answers at {', '.join(nobody.failures)}: start one with "
                "`moldau registry` or `moldau serve --with registry`, or name it with --schema-registry"
            ) from None
        except NotJson as other:
            raise CommandError(
                f"what answers at {other.url} is no schema registry (HTTP status {other.status}): name one "
                "with --schema-registry"
            ) from None
        if status >= 300:
            raise _refusal(status, value)
        return value


def _refusal(status: int, value: Any) -> RegistryRefusal:
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        code = value.get("error_code")
        return RegistryRefusal(code if isinstance(code, int) else status, value["message"])
    return RegistryRefusal(status, f"HTTP status {status}")
