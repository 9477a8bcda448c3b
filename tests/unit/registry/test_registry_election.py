"""The election: what members tell each other is Confluent's JSON, and who becomes primary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.services.registry.election.choice import choose_primary
from moldau.services.registry.election.identity import (
    Assignment,
    Identity,
    encode_assignment,
    encode_identity,
    parse_assignment,
    parse_identity,
)

A, B, C = Identity("a", 8081), Identity("b", 8081), Identity("c", 8081)


def test_an_identity_has_confluents_fields() -> None:
    encoded = encode_identity(Identity("a", 8081, eligible=False, scheme="https"))
    assert encoded == b'{"version":1,"host":"a","port":8081,"master_eligibility":false,"scheme":"https"}'
    assert parse_identity(encoded) == Identity("a", 8081, eligible=False, scheme="https")


def test_an_assignment_has_confluents_fields() -> None:
    encoded = encode_assignment(Assignment("m-1", A))
    assert encoded == (
        b'{"version":1,"error":0,"master":"m-1","master_identity":{"version":1,"host":"a","port":8081,'
        b'"master_eligibility":true,"scheme":"http"}}'
    )
    assert parse_assignment(encoded) == Assignment("m-1", A)
    assert parse_assignment(encode_assignment(Assignment(None, None))) == Assignment(None, None)


def test_what_newer_registries_add_is_skipped() -> None:
    found = parse_identity(
        b'{"version":1,"host":"a","port":8081,"master_eligibility":true,"scheme":"http","leader":true}'
    )
    assert found == A
    assert parse_assignment(b'{"error":1,"more":[]}') == Assignment(None, None, 1)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"host":"a"}', b'{"host":1,"port":2}', b"[" * 99_999])
def test_what_is_no_identity_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (any of json's)
        parse_identity(data)


def test_an_address_of_ipv6_has_brackets() -> None:
    assert Identity("::1", 8081).url == "http://[::1]:8081"


def test_the_eligible_member_with_the_smallest_address_becomes_primary() -> None:
    not_eligible = A._replace(eligible=False)
    assert choose_primary({"1": C, "2": B, "3": not_eligible}) == Assignment("2", B)
    assert choose_primary({"3": not_eligible}) == Assignment(None, None)


def test_who_is_primary_stays_it() -> None:
    primary = C._replace(is_primary=True)
    assert choose_primary({"1": A, "2": B, "3": primary}).primary == "3"
    assert choose_primary({"1": A, "2": B._replace(is_primary=True), "3": primary}).primary == "1"


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=4),
        st.builds(Identity, st.sampled_from("abc"), st.integers(1, 3), st.booleans(), st.just("http")),
        min_size=1,
    )
)
def test_every_member_would_choose_the_same(members: dict[str, Identity]) -> None:
    chosen = choose_primary(members)
    assert chosen == choose_primary(dict(reversed(members.items())))
    assert (chosen.primary is None) == (not any(each.eligible for each in members.values()))
    if chosen.primary is not None:
        assert members[chosen.primary] == chosen.identity
