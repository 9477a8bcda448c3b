"""SCRAM credentials of users (KIP-554). Passwords are salted here, so that no broker sees one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any, ask_controller
from moldau.client.cluster import Cluster
from moldau.common.credentials.scram import BY_NAME, BY_NUMBER, CLIENT_ITERATIONS_MAX, salted_password
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_user_scram_credentials as alter
from moldau.common.protocol.messages import describe_user_scram_credentials as describe


class ScramCredential(NamedTuple):
    """What a user logs in with by one mechanism (its name): a password, to be salted so many times."""

    mechanism: str
    iterations: int
    salt: bytes
    password: str

    def __repr__(self) -> str:
        return f"ScramCredential({self.mechanism}, {self.iterations}, [hidden])"


def find_scram_users(cluster: Cluster, users: Sequence[str] | None = None) -> dict[str, dict[str, int]]:
    """Iterations by mechanism of these users, as far as they have credentials; None: of all."""
    asked = None if users is None else [describe.UserName(name=each) for each in users]
    request = describe.DescribeUserScramCredentialsRequest(users=asked)
    answer = ask_any(cluster, request, "read SCRAM users")
    check(answer.error_code, answer.error_message)
    found = {}
    for row in answer.results:
        if row.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check(row.error_code, row.error_message)
        found[row.user] = {
            BY_NUMBER[info.mechanism].name: info.iterations
            for info in row.credential_infos
            if info.mechanism in BY_NUMBER
        }
    return found


def alter_scram_users(
    cluster: Cluster,
    upsertions: Mapping[str, Iterable[ScramCredential]],
    deletions: Mapping[str, Iterable[str]],
) -> None:
    """Set users' credentials, and remove those of mechanisms. KafkaProblem for the first refusal."""
    request = alter.AlterUserScramCredentialsRequest(
        deletions=[
            alter.ScramCredentialDeletion(name=user, mechanism=BY_NAME[mechanism].number)
            for user, mechanisms in deletions.items()
            for mechanism in mechanisms
        ],
        upsertions=[
            _upsertion(user, credential)
            for user, credentials in upsertions.items()
            for credential in credentials
        ],
    )
    answer = ask_controller(
        cluster, request, lambda got: [row.error_code for row in got.results], "change SCRAM users"
    )
    for row in answer.results:
        check(row.error_code, row.error_message)


def _upsertion(user: str, credential: ScramCredential) -> alter.ScramCredentialUpsertion:
    mechanism = BY_NAME[credential.mechanism]
    return alter.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.number,
        iterations=credential.iterations,
        salt=credential.salt,
        salted_password=salted_password(
            mechanism,
            credential.password,
            credential.salt,
            min(credential.iterations, CLIENT_ITERATIONS_MAX),  # the broker refuses more, and says so
        ),
    )
