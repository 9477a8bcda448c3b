"""docs/schema-registry.md names every setting; the login files that it shows can be read."""

import re
from pathlib import Path

from moldau.services.http.login import LoginFile
from moldau.services.http.rights import parse_rights
from moldau.services.registry.settings_document import replaced

PAGE = Path(__file__).parents[3] / "docs" / "schema-registry.md"


def test_every_setting_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert replaced(text) == text, (
        "run: python -m moldau.services.registry.settings_document docs/schema-registry.md"
    )


def test_the_files_it_shows_can_be_read(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in found if not language]
    logins, rights = (next(each for each in blocks if mark in each) for mark in ("# users:", "# rights:"))
    users, tokens = logins.split("# tokens")
    (tmp_path / "users").write_text(users)
    (tmp_path / "tokens").write_text("# tokens" + tokens)
    ann = LoginFile("moldau.http.users.file", str(tmp_path / "users"), tokens=False).find("ann")
    assert ann is not None
    assert (ann.fits("wonderland"), ann.principal.roles) == (True, {"admins"})
    assert LoginFile("moldau.http.tokens.file", str(tmp_path / "tokens"), tokens=True).find("6fa1c2d0e4")
    assert len(parse_rights(rights, "rights")) == 4
