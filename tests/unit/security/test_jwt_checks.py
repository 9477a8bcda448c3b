"""The checks of a client's token: what passes, and what each forged or outdated one is refused for."""

import base64
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_issuer import NOW_MS, NOW_SECONDS, Issuer, claims, encoded, rsa_issuer, secret_issuer, unsigned

from moldau.common.credentials.jwt.checks import Rules, check_claims, check_token
from moldau.common.credentials.jwt.key_set import ALGORITHMS, KeySet, UnreadableKeys, read_key_set
from moldau.common.credentials.jwt.refused import TokenRefused, UnknownKey
from moldau.common.credentials.jwt.unsecured import UnsecuredRules, check_unsecured_token

RULES = Rules(("kafka",), "https://issuer")
ISSUER, RSA, SECRET = Issuer(), rsa_issuer(), secret_issuer()
KEYS = read_key_set(ISSUER.document(RSA))


def check(token, keys=KEYS, rules=RULES):
    return check_token(token, keys, rules, NOW_MS)


def refused(token, keys=KEYS, rules=RULES):
    with pytest.raises(TokenRefused) as raised:
        check(token, keys, rules)
    return str(raised.value)


@pytest.mark.parametrize("issuer", [ISSUER, RSA], ids=["EC", "RSA"])
def test_a_good_token_gives_name_and_end(issuer):
    checked = check(issuer.token(scope=["a", "b"]))
    assert checked == ("alice", (NOW_SECONDS + 3_600) * 1_000, ("a", "b"))


def test_no_signature_is_none():
    assert "none" in refused(unsigned(claims()))
    assert "None" in refused(unsigned(claims(), "None"))
    assert "NONE" in refused(unsigned(claims(), "NONE"))
    header, payload, signature = ISSUER.token().split(".")
    refused(f"{header}.{payload}.")
    refused(f"{header}.{payload}")
    refused(f"{encoded({'alg': 'none', 'kid': 'k1'})}.{payload}.{signature}")
    assert "none" not in ALGORITHMS


def test_a_public_key_is_no_shared_secret():
    """The attack of 2015: HS256 with the text of the RSA public key as its secret."""
    pem = RSA.key.as_pem(private=False)
    for secret in (pem, pem.strip(), RSA.document(), json.dumps(RSA.public()).encode()):
        for kid in ("rsa", None):
            header = {"alg": "HS256"} if kid is None else {"alg": "HS256", "kid": kid}
            unproven = f"{encoded(header)}.{encoded(claims())}"
            forged = f"{unproven}.{encoded(hmac.digest(secret, unproven.encode(), 'sha256'))}"
            refused(forged)


def test_a_shared_secret_counts_only_where_it_is_allowed():
    document = SECRET.document()
    with pytest.raises(UnreadableKeys, match="none of its 1 keys"):
        read_key_set(document)
    assert check(SECRET.token(), read_key_set(document, shared_secrets=True)).name == "alice"


def test_another_issuers_key_of_the_same_id_does_not_fit():
    assert "signature" in refused(Issuer("k1").token())


def test_an_unknown_key_is_told_apart():
    with pytest.raises(UnknownKey):
        check(Issuer("k2").token())
    with pytest.raises(UnknownKey):
        check(ISSUER.token(), KeySet())


def test_a_token_that_names_no_key_is_tried_with_all_that_fit():
    others = [Issuer(f"o{number}") for number in range(3)]
    keys = read_key_set(others[0].document(*others[1:], ISSUER))
    assert check(ISSUER.token({"kid": None}), keys).name == "alice"
    assert "signature" in refused(Issuer().token({"kid": None}), keys)


def test_a_key_is_used_as_the_issuer_says():
    assert "not one for ES256" in refused(ISSUER.token(), read_key_set(ISSUER.document(alg="ES384")))
    for row in (
        ISSUER.public(use="enc"),
        ISSUER.public(key_ops=["sign"]),
        {"kty": "RSA"},
        {"kty": "ABC"},
        {},
        "text",
    ):
        with pytest.raises(UnreadableKeys):
            read_key_set(json.dumps({"keys": [row]}).encode())


def test_a_key_that_cannot_be_read_does_not_spoil_the_others():
    rows = [{"kty": "EC", "crv": "P-256", "x": "!", "y": 3}, {"kty": "OKP", "crv": 5}, ISSUER.public()]
    assert len(read_key_set(json.dumps({"keys": rows}).encode())) == 1


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys":{}}', b"<html>", b"[" * 100_000])
def test_what_is_no_key_document(document):
    with pytest.raises(UnreadableKeys):
        read_key_set(document)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"exp": None}, "no end"),
        ({"exp": NOW_SECONDS - 31}, "expired 31 s ago"),
        ({"exp": NOW_SECONDS - 30}, "expired"),
        ({"exp": "tomorrow"}, "no number"),
        ({"exp": True}, "no number"),
        ({"exp": float("nan")}, "no time"),
        ({"exp": float("-inf")}, "no time"),
        ({"nbf": NOW_SECONDS + 31}, "not valid before 31 s"),
        ({"iat": None}, "issued"),
        ({"iat": -1}, "no time"),
        ({"iat": NOW_SECONDS + 7_200}, "ends before it begins"),
        ({"iss": None}, "issuer is missing"),
        ({"iss": "https://issuer/"}, "issuer"),
        ({"iss": ["https://issuer"]}, "issuer"),
        ({"aud": None}, "audience is missing"),
        ({"aud": []}, "audience"),
        ({"aud": ["other", "kafka "]}, "audience"),
        ({"aud": [["kafka"]]}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"sub": None}, "sub"),
        ({"sub": "  "}, "sub"),
        ({"sub": {"name": "alice"}}, "sub"),
        ({"sub": 5}, "sub"),
        ({"sub": "alice\nUser:admin"}, "control"),
        ({"sub": "a" * 1_025}, "too long"),
        ({"scope": ["a", "a "]}, "twice"),
        ({"scope": [""]}, "empty scope"),
        ({"scope": [1]}, "empty scope"),
    ],
)
def test_claims_that_are_refused(changed, word):
    assert word in refused(ISSUER.token(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW_SECONDS - 29, "iat": NOW_SECONDS - 60},
        {"exp": NOW_SECONDS + 0.5},
        {"exp": 10**300},
        {"nbf": NOW_SECONDS + 30},
        {"aud": ["other", "kafka"]},
        {"sub": " alice "},
        {"scope": "read write"},
        {"scope": None},
        {"scope": {"not": "looked at"}},
    ],
)
def test_claims_that_pass(changed):
    assert check(ISSUER.token(**changed)).name == "alice"


def test_a_token_for_an_audience_is_refused_where_none_is_expected():
    """RFC 7519, 4.1.3: who does not find himself in `aud` must refuse; so do Kafka's brokers."""
    assert "(not set)" in refused(ISSUER.token(), rules=Rules())
    assert check(ISSUER.token(aud=None), rules=Rules()).name == "alice"


def test_another_claim_holds_the_name():
    rules = RULES._replace(sub_claim_name="https://example.com/user", scope_claim_name="scp")
    token = ISSUER.token(**{"https://example.com/user": "bob", "scp": ["x"], "scope": ["y", "y"]})
    assert check(token, rules=rules)[::2] == ("bob", ("x",))


def test_nothing_critical_is_ignored():
    payload = encoded(claims())
    for header in ({"alg": "ES256", "kid": "k1", "crit": ["exp"], "exp": 1}, {"alg": "ES256", "b64": False}):
        assert "crit" in refused(f"{encoded(header)}.{payload}.AAAA")


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "....",
        "é.é.é",
        encoded({"alg": 5}) + "..",
        encoded({"alg": "ES256", "kid": 5}) + "..",
        encoded([]) + "..",
        encoded(b"{" * 10_000) + "..",
        encoded({"alg": "ES256", "kid": "k1"}) + ".*.*",
        encoded({"alg": "ES256", "kid": "k1"}) + "..AAAA",
    ],
)
def test_what_is_no_token(token):
    refused(token)


def test_signed_rubbish_is_refused():
    for payload in (b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"exp":' + b"9" * 5_000 + b"}"):
        refused(ISSUER.signed(payload))


def test_large_tokens():
    assert check(ISSUER.token(extra="x" * 400_000)).name == "alice"
    assert "too large" in refused(f"{encoded({'alg': 'ES256', 'x': 'y' * 20_000})}.AA.AA")


@given(st.data())
def test_a_changed_token_is_refused(data):
    token = ISSUER.token()
    position = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("AZaz09-_.=+/é"))
    changed = token[:position] + letter + token[position + 1 :]
    if _bytes_of(changed) == _bytes_of(token):
        return  # the last letter of a part has bits that are not used
    refused(changed)


def _bytes_of(token):
    try:
        return [base64.b64decode(part + "==", altchars=b"-_", validate=True) for part in token.split(".")]
    except ValueError:
        return token


def test_unsecured_tokens():
    rules = UnsecuredRules.of(
        {"unsecuredValidatorRequiredScope": "read", "unsecuredValidatorAllowableClockSkewMs": "1000"}
    )
    good = unsigned(claims(scope=["read", "x"], aud=["anybody"], iat=None))
    assert check_unsecured_token(good, rules, NOW_MS).name == "alice"
    for bad in (
        unsigned(claims()),  # no scope
        unsigned(claims(scope="read", exp=NOW_SECONDS - 1)),
        ISSUER.token(scope="read"),
        unsigned(claims(scope="read"), "HS256"),
        "a.b",
    ):
        with pytest.raises(TokenRefused):
            check_unsecured_token(bad, rules, NOW_MS)
    with pytest.raises(ValueError, match="milliseconds"):
        UnsecuredRules.of({"unsecuredValidatorAllowableClockSkewMs": "-1"})


ODD = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        10**30,
        float("inf"),
        float("nan"),
        "",
        "kafka",
        [],
        ["kafka", None],
        [[]],
        {},
        {"a": []},
    ]
)


@given(st.dictionaries(st.sampled_from(["exp", "iat", "nbf", "aud", "iss", "sub", "scope"]), ODD))
def test_any_claims_pass_or_are_refused(changed):
    try:
        checked = check_claims({**claims(), **changed}, RULES, NOW_MS)
    except TokenRefused:
        return
    assert checked.name
    assert checked.expires_ms > NOW_MS - RULES.clock_skew_ms


def test_a_time_too_large_for_a_float_is_the_latest_there_is() -> None:
    checked = check_claims({"sub": "alice", "exp": 10**400, "iat": 0}, Rules(), 1)
    assert checked.expires_ms == 253_402_300_799_000
