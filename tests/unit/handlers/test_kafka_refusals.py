"""A client that lacks rights gets the error codes that Apache Kafka gives it, in every version of every API
(record_refusals.py asked it)."""

from pathlib import Path

from acl_world import AclWorld, with_acls
from record_refusals import STAGES, Answers, Named, read, requests_of
from rights_requests import A, B
from rights_world import ask

from moldau.common.protocol.errors import ErrorCode

ANONYMOUS = "User:ANONYMOUS"
FAILED = {int(code) for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}
DIFFERENT = {
    "AlterConfigs": "Kafka says first that levels of loggers cannot be set so, then who may set them",
}


def test_who_lacks_rights_is_told_what_kafka_tells(tmp_path: Path) -> None:
    kafka, ours = read(), Answers()

    async def scene(world: AclWorld) -> None:
        await world.node.controller.auto_create_topics([A, B])
        named = Named({name: world.id_of(name) for name in (A, B)}, str(tmp_path))
        for stage in STAGES:
            for operation, kind, name in stage.rights:
                await world.allow(ANONYMOUS, operation, kind, name)
            for name, version, request in requests_of(stage, named):
                answer = await ask(world.node, request, version, ANONYMOUS)
                assert answer is not None, (name, version)
                ours[stage.name, name, version] = frozenset(answer.errors)

    with_acls(scene, tmp_path)
    assert ours.keys() == kafka.keys()
    for asked, codes in kafka.items():
        if asked[1] in DIFFERENT:
            assert ours[asked] < codes, asked
        elif codes <= FAILED:
            assert ours[asked] == codes, asked
        else:
            assert ours[asked] & FAILED == codes & FAILED, asked
