"""No regular expression that somebody brings runs in Python's backtracking `re`: literal patterns only, or a
row here with its reason. Everything else goes through moldau.common.core.patterns (RE2)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_CALLS = {
    "compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer",
}  # fmt: skip

ALLOWED = {
    (
        "moldau/broker/coordinator/group/consumer/regex.py",
        "pattern",
    ): "where RE2 has no wheel: nested repeats are refused",
    ("moldau/common/core/java_patterns.py", "whole"): "of who typed the command; RE2 runs what it can",
    (
        "moldau/broker/monitor/document.py",
        "f'(<!-- table: {name} -->\\\\n).*?(<!-- end -->)'",
    ): "our own names",
    ("moldau/services/rest/openapi/pages.py", "f'<{element}>(.*?)</{element}>'"): "our own elements",
    ("moldau/schemas/columns/json_decoder.py", "_NANOSECONDS"): "a literal, which pyarrow is given too",
}


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """The patterns in a file that are no literals, and their lines."""
    tree = ast.parse(path.read_text())
    modules, functions = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {each.asname or each.name for each in node.names if each.name in ("re", "regex")}
        elif isinstance(node, ast.ImportFrom) and node.module in ("re", "regex"):
            functions |= {each.asname or each.name for each in node.names if each.name in _CALLS}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        of_module = (
            isinstance(called, ast.Attribute)
            and called.attr in _CALLS
            and isinstance(called.value, ast.Name)
            and called.value.id in modules
        )
        if of_module or (isinstance(called, ast.Name) and called.id in functions):
            given = [each.value for each in node.keywords if each.arg == "pattern"]
            pattern = node.args[0] if node.args else given[0]
            if not isinstance(pattern, ast.Constant):
                yield ast.unparse(pattern), node.lineno


def test_patterns_that_are_no_literals_run_in_re2(pytestconfig: pytest.Config) -> None:
    source = pytestconfig.rootpath / "src"
    found = {
        (str(path.relative_to(source)), text): line
        for path in sorted(source.rglob("*.py"))
        for text, line in calls(path)
    }
    unknown = [f"{path}:{line} {text}" for (path, text), line in found.items() if (path, text) not in ALLOWED]
    assert not unknown, "use moldau.common.core.patterns, or say here why not"
    assert not ALLOWED.keys() - found.keys(), "no longer there"


def test_re2_is_imported_in_one_place(pytestconfig: pytest.Config) -> None:
    source = pytestconfig.rootpath / "src"
    uses = [
        path for path in source.rglob("*.py") if re.search(r"import re2\b|[\"']re2[\"']", path.read_text())
    ]
    assert [str(path.relative_to(source)) for path in uses] == ["moldau/common/core/patterns.py"]


def test_the_search_finds_what_it_is_for(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "import re as regular\nfrom re import fullmatch as whole\n"
        "regular.compile('a' 'b')\nregular.search(given, text)\nwhole(f'{given}', text)\n"
        "regular.sub(pattern=given, repl='', string='')\ntext.split(given)\n"
    )
    assert [line for _, line in calls(path)] == [4, 5, 6]
