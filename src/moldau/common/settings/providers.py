"""Values that settings name instead of holding them (KIP-297, KIP-421): a password stays out of the file.

    config.providers=file,dir,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider

    ${file:/etc/kafka/secrets.properties:key}    the value of `key` in a property file
    ${dir:/run/secrets:password}                 the content of the file /run/secrets/password
    ${env:KEY_PASSWORD}                          an environment variable

`config.providers.NAME.param.allowed.paths` limits the files, `config.providers.NAME.param.allowlist.pattern`
the variables. Brokers and clients read the same notation. A variable of a provider that is not declared stays
as it is, as in Kafka. What a provider does not have is an error here; Kafka takes the variable's own text for
the value, and `${file:...}` as a password only fails much later.

Invariant: a value that was filled in is not searched again, and stands in no message.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.common.core.properties import parse_properties
from moldau.common.settings.rows import SettingError

DECLARED = "config.providers"
_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."
_CLASSES = ("FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider")
_ALLOWED_PATHS, _ALLOWLIST = "allowed.paths", "allowlist.pattern"

Look = Callable[[str, str], str]
"""From (path, key) to the value; LookupError with a sentence if there is none."""


def fill_in(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings with their variables replaced by values. SettingError: a provider that is not known or not
    configured properly, or a value that it does not have.
    """
    names = [name.strip() for name in texts.get(DECLARED, "").split(",") if name.strip()]
    if not names:
        return dict(texts)
    providers = {name: _provider(name, texts, environment) for name in names}
    return {
        name: value if name.startswith(DECLARED) or "${" not in value else _replace(name, value, providers)
        for name, value in texts.items()
    }


def read_settings(path: Path, environment: Mapping[str, str], errors: str = "strict") -> dict[str, str]:
    """The settings of a property file, with their variables replaced; providers' own settings are left out.
    OSError, SettingError; ValueError: it is no property file. `errors`: as `open` takes it, for bytes that
    are not UTF-8.
    """
    texts = parse_properties(path.read_text(encoding="utf-8", errors=errors))
    if DECLARED not in texts:
        return texts
    filled = fill_in(texts, environment)
    return {name: value for name, value in filled.items() if not name.startswith(DECLARED)}


def undeclared(texts: Mapping[str, str]) -> list[str]:
    """The names of settings with a variable of one of the usual providers that is not declared: it stands
    there as it is, which is hardly what was meant.
    """
    declared = {name.strip() for name in texts.get(DECLARED, "").split(",")}
    return [
        name
        for name, value in texts.items()
        if "${" in value
        and any(match[1] in ("file", "dir", "env") and match[1] not in declared for match in variables(value))
    ]


def variables(value: str) -> list[re.Match[str]]:
    """The variables in a value."""
    return list(_VARIABLE.finditer(value))


def _replace(name: str, value: str, providers: Mapping[str, Look]) -> str:
    def one(variable: re.Match[str]) -> str:
        look = providers.get(variable[1])
        if look is None:
            return variable[0]
        try:
            return look(variable[3] or "", variable[4])
        except LookupError as problem:
            raise SettingError(name, f"{name} cannot be filled in: {problem.args[0]}") from None

    return _VARIABLE.sub(one, value)


def _provider(name: str, texts: Mapping[str, str], environment: Mapping[str, str]) -> Look:
    class_name = f"{DECLARED}.{name}.class"
    kind = texts.get(class_name, "").strip()
    short = kind.removeprefix(_PACKAGE)
    if short not in _CLASSES:
        what = f"is {kind}, which only Java could load" if kind else "is not set"
        known = ", ".join(_PACKAGE + each for each in _CLASSES)
        raise SettingError(class_name, f"{class_name} {what}; the providers are {known}")
    parameters = f"{DECLARED}.{name}.param."
    if short == "EnvVarConfigProvider":
        pattern = parameters + _ALLOWLIST
        return _variables_of(environment, pattern, texts.get(pattern, "").strip())
    setting = parameters + _ALLOWED_PATHS
    allowed = _allowed(setting, texts.get(setting, ""))
    return _keys_of_files(allowed) if short == "FileConfigProvider" else _files_of_folders(allowed)


def _variables_of(environment: Mapping[str, str], setting: str, pattern: str) -> Look:
    try:
        allowed = compile_pattern(pattern or ".*", dot_takes_newline=True)
    except PatternError as problem:
        raise SettingError(setting, f"{setting}={pattern} is not a regular expression: {problem}") from None

    def look(path: str, key: str) -> str:
        if path:
            raise LookupError(f"environment variables have no path: write ${{env:{key}}}")
        if not allowed.fullmatch(key):
            raise LookupError(f"{setting} does not allow the environment variable {key}")
        if key not in environment:
            raise LookupError(f"there is no environment variable {key}")
        return environment[key]

    return look


def _keys_of_files(allowed: "_Allowed") -> Look:
    files: dict[str, dict[str, str]] = {}

    def look(path: str, key: str) -> str:
        if not path:
            raise LookupError(f"it names no file: write ${{file:/path/to/file:{key}}}")
        if path not in files:
            allowed.check(path)
            try:
                files[path] = parse_properties(_read(path))
            except ValueError:
                raise LookupError(f"{path} is not a property file") from None
        if key not in files[path]:
            raise LookupError(f"{path} has no key {key}")
        return files[path][key]

    return look


def _files_of_folders(allowed: "_Allowed") -> Look:
    def look(path: str, key: str) -> str:
        if not path or "/" in key or key in ("", ".", ".."):
            raise LookupError("it names no file in a folder: write ${dir:/path/to/folder:name}")
        named = f"{path}/{key}"
        allowed.check(named)
        return _read(named)

    return look


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as problem:
        raise LookupError(f"{path} cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError:
        raise LookupError(f"{path} is not text") from None


class _Allowed:
    """The files and folders that `allowed.paths` names; without any, all are allowed."""

    def __init__(self, setting: str, paths: tuple[Path, ...]) -> None:
        self._setting = setting
        self._paths = paths

    def check(self, path: str) -> None:
        """LookupError if the path lies in none of them, also where a link or `..` leads out of them."""
        if not self._paths:
            return
        found = Path(path).resolve()
        if not Path(path).is_absolute() or not any(found.is_relative_to(each) for each in self._paths):
            raise LookupError(f"{self._setting} does not allow {path}")


def _allowed(setting: str, text: str) -> "_Allowed":
    paths = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        if not Path(each).is_absolute():
            raise SettingError(setting, f"{setting} must name absolute paths, and {each} is none")
        if not Path(each).exists():
            raise SettingError(setting, f"{setting} names {each}, which does not exist")
        paths.append(Path(each).resolve())
    return _Allowed(setting, tuple(paths))
