"""Rules from Kerberos principals to user names, read as Kafka reads them."""

import pytest

from moldau.broker.security.kerberos_names import KerberosNames, NoName, RuleError


def user(principal, *rules, realm="OUR.REALM"):
    return KerberosNames(rules, realm).user(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@OUR.REALM", [], "alice"),
        ("alice/host.example.com@OUR.REALM", ["DEFAULT"], "alice"),
        ("alice@ELSE", ["RULE:[1:$1]", "DEFAULT"], "alice"),
        ("alice@ELSE", ["DEFAULT", "RULE:[1:$1.of.$0]"], "alice.of.ELSE"),
        ("alice@ELSE", [r"RULE:[1:$1@$0](.*@ELSE)s/@.*//"], "alice"),
        ("alice/admin@ELSE", [r"RULE:[2:$1-$2]"], "alice-admin"),
        ("alice/admin@ELSE", [r"RULE:[1:$1]", r"RULE:[2:$2]"], "admin"),
        ("App.Service.TEST@ELSE", [r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g/L"], "service.test"),
        ("Alice@ELSE", ["RULE:[1:$1]/L"], "alice"),
        ("banana@ELSE", ["RULE:[1:$1]s/a/o/"], "bonana"),
        ("banana@ELSE", ["RULE:[1:$1]s/a/o/g"], "bonono"),
        ("banana@ELSE", [r"RULE:[1:$1]s/a(.)/\$$1/"], "b$nana"),
        ("alice", ["DEFAULT"], "alice"),
    ],
)
def test_names(principal, rules, expected):
    assert user(principal, *rules) == expected


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        ("alice@ELSE", []),
        ("alice@our.realm", []),
        ("alice@ELSE", ["RULE:[2:$1]"]),
        ("alice@ELSE", ["RULE:[1:$1](bob)"]),
        ("xalicex@ELSE", ["RULE:[1:$1](alice)"]),  # the whole text must match
        ("alice@ELSE", ["RULE:[1:$1@$0]"]),  # no simple name
        ("alice/admin@OUR.REALM", ["RULE:[2:$1/$2]", "DEFAULT"]),
        ("alice@ELSE", ["RULE:[1:$1]s/.*//g"]),  # nothing is left
        ("a/b/c@OUR.REALM", []),
        ("a@b@OUR.REALM", []),
        ("@OUR.REALM", []),
        ("/x@OUR.REALM", []),
        ("", []),
        ("alice/", []),
        ("al\\/ice@OUR.REALM", []),
        ("alice\\@OUR.REALM@ELSE", []),
        ("alice\nadmin@OUR.REALM", []),
        ("alice\0@OUR.REALM", []),
        ("a" * 2_000 + "@OUR.REALM", []),
    ],
)
def test_no_name(principal, rules):
    with pytest.raises(NoName) as raised:
        user(principal, *rules)
    assert "alice" not in str(raised.value)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "RULE:[1:$1",
        "RULE:[:$1]",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1](a(b)",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1]s/[/b/",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/a/b/x",
        "RULE:[1:$1] DEFAULT",
    ],
)
def test_a_rule_that_cannot_be_read(rule):
    with pytest.raises(RuleError, match="the rule"):
        KerberosNames(["DEFAULT", rule], "OUR.REALM")
