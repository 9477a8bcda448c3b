"""kafka-storage format --add-scram: what it writes, what the first start makes of it, what is refused."""

import asyncio
import random
import stat
from pathlib import Path

import pytest

from moldau.broker.controller.controller import Controller
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.first_changes import FILE_NAME, read_first_changes, remove_first_changes
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.levels import LEVEL_MAX
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.files import OsFiles
from moldau.common.credentials.scram import SHA_256, SHA_512, base64_text, credential_of, salted_password
from moldau.common.settings.sources import from_texts
from moldau.tools.commands.serve.first_users import first_users
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.programs import storage
from moldau.tools.kafka.queries.scram_format import scram_users

SALT = b"0123456789abcdef"
CLUSTER = "clusterclusterclusterX"


def formatted(folder: Path, *users: str, ignore: bool = False) -> int:
    settings = folder / "server.properties"
    settings.write_text(f"node.id=1\nlog.dirs={folder}/data\n")
    words = ["format", "-t", CLUSTER, "-c", str(settings), *(["-g"] if ignore else [])]
    for user in users:
        words += ["--add-scram", user]
    return storage.main(words)


async def started(folder: Path) -> Image:
    """The metadata after a start as the node does it."""
    files, data = OsFiles(), str(folder / "data")
    view = MetadataView()
    store = EmbeddedStore(folder / "data")
    controller = Controller(1, store, view, from_texts({}), random.Random(3))
    made = await controller.this_broker.open(CLUSTER, read_first_changes(files, data))
    remove_first_changes(files, data, used=made)
    image = view.image
    await controller.this_broker.close()
    return image


def test_users_of_the_first_start(tmp_path: Path) -> None:
    salted = base64_text(salted_password(SHA_512, "secret", SALT, 8192))
    assert (
        formatted(
            tmp_path,
            "SCRAM-SHA-256=[name=alice,password=alice-secret]",
            f'SCRAM-SHA-512=["name=bob","iterations=8192","salt={base64_text(SALT)}","saltedpassword={salted}"]',
            f'SCRAM-SHA-256=[name="bob",salt="{base64_text(SALT)}",password="with = sign"]',
        )
        == 0
    )
    file = tmp_path / "data" / FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"alice-secret" not in file.read_bytes()
    image = asyncio.run(started(tmp_path))
    assert (image.cluster_id, image.level) == (CLUSTER, LEVEL_MAX)
    assert len(image.scram_secret) == 32
    mine = image.scram["alice"]["SCRAM-SHA-256"]
    salted_alice = salted_password(SHA_256, "alice-secret", mine.salt, 4096)
    assert mine == credential_of(SHA_256, salted_alice, mine.salt, 4096)
    salted_bob = salted_password(SHA_512, "secret", SALT, 8192)
    assert image.scram["bob"]["SCRAM-SHA-512"] == credential_of(SHA_512, salted_bob, SALT, 8192)
    salted_bob = salted_password(SHA_256, "with = sign", SALT, 4096)
    assert image.scram["bob"]["SCRAM-SHA-256"] == credential_of(SHA_256, salted_bob, SALT, 4096)
    assert not file.exists()
    assert asyncio.run(started(tmp_path)).scram == image.scram


def test_a_cluster_that_was_made_before_does_not_take_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(started(tmp_path))
    formatted(tmp_path, "SCRAM-SHA-256=[name=alice,password=x]")
    assert asyncio.run(started(tmp_path)).scram == {}
    assert not (tmp_path / "data" / FILE_NAME).exists()
    assert "not used" in caplog.text


def test_a_folder_that_is_formatted_gets_no_users(tmp_path: Path) -> None:
    formatted(tmp_path)
    formatted(tmp_path, "SCRAM-SHA-256=[name=alice,password=x]", ignore=True)
    assert not (tmp_path / "data" / FILE_NAME).exists()


UNKNOWN, SHORT = b'{"changes":[["unknown",1]]}', b'{"changes":[["scram-credential-set"]]}'


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", UNKNOWN, SHORT])
def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(MetadataStoreError, match=FILE_NAME):
        read_first_changes(OsFiles(), str(tmp_path))


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-1=[name=a,password=s3cret]", "The add-scram mechanism SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=name=a,password=s3cret", "start with ["),
        ("SCRAM-SHA-256=[name=a,password=s3cret", "end with ]"),
        ("SCRAM-SHA-256=[password=s3cret]", "You must supply 'name'"),
        ("SCRAM-SHA-256=[name=,password=s3cret]", "'name' for add-scram is empty"),
        ("SCRAM-SHA-256=[name=a]", "one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=s3cret]", "You must supply 'salt'"),
        ("SCRAM-SHA-256=[name=a,salt=s3cret!,password=x]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=s3cret!]", "Failed to decode given saltedPassword"),
        ("SCRAM-SHA-256=[name=a,password=s3cret,iterations=x]", "Failed to parse iterations count"),
        ("SCRAM-SHA-256=[name=a,password=s3cret,iterations=4095]", "must be >= 4096"),
        ("SCRAM-SHA-512=[name=a,password=s3cret,iterations=16385]", "must be <= 16384"),
        ("SCRAM-SHA-512=[name=a,password=s3cret,iterations=2147483648]", "iterations count"),
        ("SCRAM-SHA-256=[name=a,password=s3cret,what=1]", "Unknown SCRAM configurations: what"),
        ("SCRAM-SHA-256=[name=a,s3cret]", "No equals sign found"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(argument: str, sentence: str) -> None:
    with pytest.raises(ToolError) as problem:
        first_users(scram_users([argument]))
    assert sentence in str(problem.value)
    assert "s3cret" not in str(problem.value)
