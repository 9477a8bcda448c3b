"""What a DELETE may say besides its path: nothing that is not known, nothing twice, nothing empty.

A name that is misspelt, or a variable of a script that is empty, would else delete more than was meant:
`DELETE /subjects/orders?version=3` all versions, and `DELETE /config/` (where a subject was to stand behind
the slash) the settings of everybody.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request

from moldau.services.http.problems import HttpProblem

_SHOWN_CHARACTERS_MAX = 60


def check_delete(request: Request, parameters: Collection[str] = ()) -> None:
    """HttpProblem 400 for a query, 404 for a path, that may mean something else than it says."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    path = raw.partition(b"?")[0]
    if path.endswith(b"/") or b"//" in path:
        raise HttpProblem(
            404, "HTTP 404 Not Found: the path of a DELETE has an empty part; nothing was deleted"
        )
    seen = set()
    for name, value in request.query_params.multi_items():
        shown = name[:_SHOWN_CHARACTERS_MAX]
        if name not in parameters:
            known = f"there are {', '.join(parameters)}" if parameters else "there is none here"
            raise HttpProblem(
                400, f"The query parameter {shown!r} is not known ({known}); nothing was deleted."
            )
        if name in seen:
            raise HttpProblem(
                400, f"The query parameter {shown!r} is given more than once; nothing was deleted."
            )
        if not value.strip():
            raise HttpProblem(400, f"The query parameter {shown!r} is empty; nothing was deleted.")
        seen.add(name)


def delete_flag(request: Request, name: str) -> bool:
    """A parameter of a DELETE that is true or false. HttpProblem 400 for anything else."""
    value = request.query_params.get(name, "false").strip().lower()
    if value not in ("true", "false"):
        raise HttpProblem(400, f"{name} must be true or false; nothing was deleted.")
    return value == "true"
