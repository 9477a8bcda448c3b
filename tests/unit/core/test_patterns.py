"""Patterns of others: linear in time, refused with a sentence where RE2 cannot."""

import pytest

from moldau.broker.security.kerberos_names import KerberosNames, RuleError
from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.common.credentials.principals import MappingError, PrincipalMapping

EVIL_NAME = "a" * 900 + "!"  # (a+)+$ would take Python's re longer than the universe is old


def test_a_name_that_backtracks_is_answered() -> None:
    assert compile_pattern("(a+)+$").fullmatch(EVIL_NAME) is None
    with pytest.raises(MappingError, match="no rule"):
        PrincipalMapping("RULE:^CN=(a+)+$/$1/").name_of(f"CN={EVIL_NAME}")
    assert KerberosNames(["RULE:[1:$1]s/(a+)+x/y/"], "R").user(f"{EVIL_NAME}@R") == EVIL_NAME


@pytest.mark.parametrize("pattern", ["(?!x)a", "(?<=x)a", r"(a)\1", "a++"])
def test_what_re2_lacks_is_refused_at_the_start_with_its_reason(pattern: str) -> None:
    with pytest.raises(PatternError, match="not served, because they can take for ever"):
        compile_pattern(pattern)
    with pytest.raises(MappingError, match="RE2"):
        PrincipalMapping(f"RULE:{pattern}/x/")
    if ")" not in pattern:
        with pytest.raises(RuleError, match="RE2"):
            KerberosNames([f"RULE:[1:$1]({pattern})"], "R")


def test_a_plain_mistake_is_told_as_it_is() -> None:
    with pytest.raises(PatternError) as problem:
        compile_pattern("[a")
    assert "RE2" not in str(problem.value)


def test_groups_of_a_mapping_are_java_s() -> None:
    subject = "CN=Alice,OU=Shop"
    assert PrincipalMapping("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L").name_of(subject) == "alice@shop"
    assert PrincipalMapping("RULE:^CN=(?<user>.*?),.*$/${user}/U").name_of(subject) == "ALICE"
    with pytest.raises(MappingError, match="has no group who"):
        PrincipalMapping("RULE:^CN=(.*?),.*$/${who}/")
