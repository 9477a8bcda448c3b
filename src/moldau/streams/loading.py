"""Loads an app from a file: `moldau streams run app.py` (or a .sql file)."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from moldau.streams.app import App
from moldau.streams.errors import AppError, StreamsError, require_spark

_NO_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"


def load_app(path: Path, name: str | None = None, start_session: Callable[[], object] | None = None) -> App:
    """Run the file and return its app; `name` is the variable (or app) of several.

    Parts of PySpark work only with a session (`@udf("long")`, `col("x")` outside of a flow). If the file
    needs one, `start_session` is called and the file run again; without it that is an AppError. So is any
    error of the file's own code, with its line.
    """
    if not path.is_file():
        raise AppError(f"there is no file {path}")
    if path.suffix == ".sql":
        app = App(path.stem)
        app.sql(path)
        return app
    require_spark()
    apps = _apps_of(path, start_session)
    if name is not None:
        apps = {variable: app for variable, app in apps.items() if name in (variable, app.name)}
    different = {id(app): app for app in apps.values()}
    if not different:
        raise AppError(
            f"{path} makes no app{f' {name}' if name else ''}: it needs a line such as app = App('name')"
        )
    if len(different) > 1:
        raise AppError(f"{path} makes several apps ({', '.join(sorted(apps))}): choose one with --app")
    return next(iter(different.values()))


def _apps_of(path: Path, start_session: Callable[[], object] | None) -> dict[str, App]:
    from moldau.streams.launching import pickle_by_value

    path = path.resolve()
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # A name that no installed module has: the file may be called like one of them.
    module_name = f"moldau_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise AppError(f"{path} is no Python file: its name must end in .py or .sql")
    loader = spec.loader
    known = set(sys.modules)

    def run() -> ModuleType:
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        loader.exec_module(module)
        return module

    try:
        module = _run_in_session(path, run, start_session)
    except StreamsError:
        raise
    except Exception as failure:
        raise AppError(f"{_place_of(failure, path)}: {_words(failure)}") from failure
    pickle_by_value(path.parent, known)
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _place_of(failure: Exception, path: Path) -> str:
    """The last line of the app's own code in the traceback, as `app.py, line 3`."""
    if isinstance(failure, SyntaxError) and failure.filename:
        return f"{_short(Path(failure.filename), path)}, line {failure.lineno}"
    own = [
        frame
        for frame in traceback.extract_tb(failure.__traceback__)
        if path.parent in Path(frame.filename).parents and "site-packages" not in frame.filename
    ]
    return f"{_short(Path(own[-1].filename), path)}, line {own[-1].lineno}" if own else str(path)


def _short(file: Path, path: Path) -> str:
    return str(file.relative_to(path.parent)) if path.parent in file.parents else str(file)


def _words(failure: Exception) -> str:
    said = failure.msg if isinstance(failure, SyntaxError) else str(failure)
    return (
        f"{type(failure).__name__}: {said.strip().splitlines()[0]}"
        if said.strip()
        else type(failure).__name__
    )


def _run_in_session(
    path: Path, run: Callable[[], ModuleType], start_session: Callable[[], object] | None
) -> ModuleType:
    from pyspark.errors import PySparkRuntimeError

    try:
        return run()
    except PySparkRuntimeError as failure:
        if failure.getCondition() != _NO_SESSION:
            raise
        if start_session is None:
            raise AppError(
                f"{path} uses Spark outside of its flows, where there is no session yet: "
                "move that into a function"
            ) from None
    start_session()
    return run()
