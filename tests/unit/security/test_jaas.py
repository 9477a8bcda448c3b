"""JAAS notation as Kafka's guides write it, and what is said of text that is none."""

import pytest

from moldau.common.credentials.jaas import JaasEntry, JaasError, parse_jaas, parse_jaas_file

KAFKA = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{KAFKA} required;", {}),
        (
            f'{KAFKA} required username="admin" password="admin-secret" user_admin="admin-secret";',
            {"username": "admin", "password": "admin-secret", "user_admin": "admin-secret"},
        ),
        (f"{KAFKA} REQUIRED \n  username='a b'\n  pass='q\"uote' ;\n", {"username": "a b", "pass": 'q"uote'}),
        (f'{KAFKA} required a="x;y=z{{}}" b="";', {"a": "x;y=z{}", "b": ""}),
        (f"{KAFKA} required keyTab=true no = false n=42;", {"keyTab": "true", "no": "false", "n": "42"}),
        (f'{KAFKA} required a="\\"\\\\\\t\\101";', {"a": '"\\\tA'}),
        (f'// why\n/* and\nhow */ {KAFKA} required # here\n a="1" /* x */ ;', {"a": "1"}),
        (f'{KAFKA} required user_ünï="pässwörd ✓";', {"user_ünï": "pässwörd ✓"}),
        (f'{KAFKA} required keyTab="/etc/k.keytab" principal="kafka/h.x@X.Y";',
         {"keyTab": "/etc/k.keytab", "principal": "kafka/h.x@X.Y"}),
    ],
)  # fmt: skip
def test_entries(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == JaasEntry(KAFKA, "required", options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there are 0 login modules"),
        (f"{KAFKA} required; {KAFKA} required;", "there are 2 login modules"),
        (KAFKA, "the flag (required) of"),
        (f"{KAFKA} always;", "is not followed by required"),
        (f"{KAFKA} required", "a ';' is missing"),
        (f'{KAFKA} required a="s3cret"', "a ';' is missing"),
        (f"{KAFKA} required a;", "line 1: a '=' is missing after the name"),
        (f"{KAFKA} required a=;", "the value of an option is missing"),
        (f'{KAFKA} required\n a="s3cret;', "line 2: a quote is not closed"),
        (f'{KAFKA} required a="s3\ncret";', "line 1: a quote"),
        ("{};", "the class of a login module is missing"),
        ("/* never closed", "is not followed by"),
        (f"{KAFKA} required\npassword=my s3cret words;", "line 2: a '=' is missing"),
    ],
)
def test_what_is_wrong_is_said_without_values(text: str, sentence: str) -> None:
    with pytest.raises(JaasError) as failure:
        parse_jaas(text)
    assert sentence in str(failure.value)
    assert "cret" not in str(failure.value)


def test_a_file_has_sections() -> None:
    found = parse_jaas_file(f'KafkaServer {{\n {KAFKA} required a="1";\n}};\nClient {{ X optional b=2; }};')
    assert found == {
        "KafkaServer": [JaasEntry(KAFKA, "required", {"a": "1"})],
        "Client": [JaasEntry("X", "optional", {"b": "2"})],
    }


def test_an_entry_does_not_show_its_values() -> None:
    entry = parse_jaas(f'{KAFKA} required password="s3cret";')
    assert "s3cret" not in repr(entry)
    assert entry.module_name == "PlainLoginModule"
