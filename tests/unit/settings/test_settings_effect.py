"""A setting that claims an effect is read by some code; one that is read does not say that it has none."""

import re

import pytest

from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.topic import TopicSettings

NOT_EVIDENCE = ("common/settings/", "broker/metadata/configs.py", "broker/controller/config_rules.py")
READ_BY_ITS_NAME = re.compile(
    r"group\.(consumer|share)\.(min|max)\..*"  # controller/config_rules.py: limits
    r"|config\.providers"  # common/settings/providers.py
    r"|ssl\..*"  # credentials/tls/options.py
    # credentials/client/: how a broker logs in to the others
    r"|sasl\.oauthbearer\.(assertion|client|token|jwt\.retriever)\..*|sasl\.oauthbearer\.scope"
    r"|sasl\.kerberos\.service\.name|sasl\.login\.(connect|read)\.timeout\.ms"
    r"|sasl\.login\.refresh\.window\.factor"
)
ONE_FOR_ANOTHER = {"log.dir": "data_directories", "log.dirs": "data_directories", "broker.id": "node_id"}
OF_LATER_PARTS = re.compile(r"transaction\.state\.log\..*")  # what the topic is created with, for now


@pytest.fixture(scope="module")
def source(pytestconfig):
    """The code of the package without the tables, but with common/settings/listeners.py, which reads some."""
    root = pytestconfig.rootpath / "src" / "moldau"
    files = {str(path.relative_to(root)): path for path in sorted(root.rglob("*.py"))}
    text = [path.read_text() for name, path in files.items() if not name.startswith(NOT_EVIDENCE)]
    return "\n".join([*text, files["common/settings/listeners.py"].read_text()])


def rows():
    inherited = {
        name: cls
        for cls in (TopicSettings, GroupSettings)
        for row in cls.ROWS.values()
        for name in row.synonyms
    }
    for cls in (BrokerSettings, TopicSettings, GroupSettings):
        for row in cls.ROWS.values():
            if cls is not BrokerSettings or row.name not in inherited:
                yield pytest.param(row, id=f"{cls.__name__}-{row.name}")


@pytest.mark.parametrize("row", list(rows()))
def test_effect_is_as_claimed(row, source):
    if READ_BY_ITS_NAME.fullmatch(row.name) or OF_LATER_PARTS.fullmatch(row.name):
        return
    attribute = ONE_FOR_ANOTHER.get(row.name, row.attribute)
    read = re.search(rf"\.{attribute}\b", source) is not None
    assert row.effective == read, "read by no code" if row.effective else "read, but said to have no effect"


def test_the_broker_setting_behind_a_topic_setting_has_an_effect_when_that_has_one():
    for cls in (TopicSettings, GroupSettings):
        for row in cls.ROWS.values():
            for name in row.synonyms:
                behind = BrokerSettings.ROWS[name]
                assert behind.effective >= row.effective, name
                if not row.effective and len(row.synonyms) == 1:
                    assert not behind.effective, name
