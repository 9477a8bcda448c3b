"""ssl.principal.mapping.rules: the rules of KIP-371, and what is no rule."""

import pytest

from moldau.common.credentials.principals import MappingError, PrincipalMapping

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", NAME, NAME),
        ("", NAME, NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", NAME, "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L", NAME, "duke@serviceusers"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", NAME, "DUKE@SERVICEUSERS"),
        ("RULE:^CN=(.*?), *OU=Other.*$/$1/ , DEFAULT", NAME, NAME),
        ("RULE:^OU=(.*?)$/$1/,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", NAME, "duke"),
        ("RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT", "CN=Fish\\, Chips,O=Org", "Fish\\, Chips"),
        ("RULE:^CN=(\\w+).*$/a\\/$1/", NAME, "a/Duke"),
        ("RULE:^CN=(\\w+).*$/$1-$7/", NAME, "Duke-$7"),
        ("RULE:^CN=(\\w+).*$/$12/", NAME, "Duke2"),
        ("RULE:^CN=(?P<who>\\w+).*$/${who}!/", NAME, "Duke!"),
    ],
)
def test_the_first_rule_that_takes_the_whole_name_wins(rules: str, subject: str, name: str) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


@pytest.mark.parametrize("rules", ["RULE:^CN=Duke$/x/", "RULE:OU=(.*?)/$1/"])
def test_a_name_that_no_rule_takes_whole_is_nobodys(rules: str) -> None:
    with pytest.raises(MappingError, match="no rule of"):
        PrincipalMapping(rules).name_of(NAME)


@pytest.mark.parametrize(
    "rules",
    [
        "deny",
        "RULE:",
        "RULE:a/b",
        "RULE:(/x/",
        "RULE:a/b/X",
        "DEFAULT RULE:a/b/",
        "RULE:a/b/L,what",
        "DEFAULTS",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(MappingError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
