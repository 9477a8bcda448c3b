"""Policies of the user: what they are asked, and what becomes of their answers."""

import asyncio
import functools
import random
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.broker.controller.configs import AlterResource, Operation
from moldau.broker.controller.controller import Controller
from moldau.broker.controller.decision import Decision
from moldau.broker.controller.policies import ALTER, CREATE, load_policies
from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.changes import ConfigsChanged
from moldau.broker.metadata.image import ResourceType
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import LoopTimers, ManualTimers
from moldau.common.core.workers import DaemonExecutor
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts
from moldau.policies import AlterConfigRequest, CreateTopicRequest, PolicyViolation
from moldau.testing.shared_memory import SharedMemory

TIMEOUT_MS = 5_000


def on_a_loop(test):
    @functools.wraps(test)
    def run(*given, **named):
        asyncio.run(test(*given, **named))

    return run


class Asked:
    """A policy that remembers what it was asked, and does what the test says."""

    def __init__(self, act=lambda request: None):
        self.requests = []
        self.act = act
        self.settings = None

    def configure(self, settings):
        self.settings = settings

    def validate(self, request):
        self.requests.append(request)
        self.act(request)


def forbid(text):
    def act(request):
        raise PolicyViolation(text)

    return act


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("our_policies")
    monkeypatch.setitem(sys.modules, "our_policies", made)
    return made


async def started(module, create=None, alter=None, timers=None, thread=None, texts=()):
    names = {}
    for setting, policy in ((CREATE, create), (ALTER, alter)):
        if policy is not None:
            setattr(module, setting.partition(".")[0], lambda policy=policy: policy)
            names[setting] = f"our_policies:{setting.partition('.')[0]}"
    policies = load_policies(
        names,
        {"node.id": "1"},
        timeout_ms=TIMEOUT_MS,
        thread=thread or DaemonExecutor("test"),
        timers=timers or LoopTimers(asyncio.get_running_loop()),
    )
    manual = ManualTimers(ManualClock())
    static = from_texts({"node.id": "1", "num.partitions": "3", **dict(texts)})
    store = SharedMemory(manual, session_timeout_ms=6_000).store()
    controller = Controller(
        1, store, MetadataView(), static, random.Random(1), timers=manual, policies=policies
    )
    await controller.this_broker.open()
    await controller.this_broker.register({"P": ("host", 9092)})
    return controller


@on_a_loop
async def test_what_a_policy_is_asked_about_a_topic(module):
    policy = Asked()
    controller = await started(module, policy)
    assert policy.settings == {"node.id": "1"}
    results = await controller.create_topics(
        [
            NewTopic("defaults"),
            NewTopic("counted", 5, 1, configs={"retention.ms": "7"}),
            NewTopic("assigned", assignments=[(0, [1]), (1, [1])]),
        ]
    )
    assert [result.outcome.error_code for result in results] == [0, 0, 0]
    assert policy.requests == [
        CreateTopicRequest("defaults", 3, 1, None, {}),
        CreateTopicRequest("counted", 5, 1, None, {"retention.ms": "7"}),
        CreateTopicRequest("assigned", None, None, {0: (1,), 1: (1,)}, {}),
    ]


@pytest.mark.parametrize("validate_only", [False, True])
@on_a_loop
async def test_a_topic_that_is_forbidden_is_not_created_and_the_others_are(module, validate_only):
    def act(request):
        if request.topic.startswith("tmp"):
            raise PolicyViolation(f"{request.topic}: names begin with a team")

    controller = await started(module, Asked(act))
    results = await controller.create_topics(
        [NewTopic("tmp-1"), NewTopic("team-1")], validate_only=validate_only
    )
    assert results[0].outcome == (ErrorCode.POLICY_VIOLATION, "tmp-1: names begin with a team")
    assert results[1].outcome.error_code is ErrorCode.NONE
    assert list(controller.view.image.topics) == ([] if validate_only else ["team-1"])


@on_a_loop
async def test_topics_that_are_made_on_demand_are_asked_about_too(module):
    controller = await started(module, Asked(forbid("no")))
    results = await controller.auto_create_topics(["a", "__consumer_offsets"])
    assert [result.outcome.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2
    assert not controller.view.image.topics


@on_a_loop
async def test_settings_of_a_new_topic_are_asked_about_by_the_policy_of_settings(module):
    policy = Asked(forbid("not that"))
    controller = await started(module, alter=policy)
    results = await controller.create_topics([NewTopic("a", configs={"retention.ms": "7"}), NewTopic("b")])
    assert [result.outcome.error_code for result in results] == [ErrorCode.POLICY_VIOLATION, 0]
    assert policy.requests == [AlterConfigRequest("topic", "a", {"retention.ms": "7"})]


@on_a_loop
async def test_what_a_policy_is_asked_about_settings(module):
    policy = Asked()
    controller = await started(module, alter=policy)
    await controller.create_topics([NewTopic("a", configs={"retention.ms": "7", "segment.ms": "8"})])
    policy.requests.clear()
    set_, append, delete = Operation.SET, Operation.APPEND, Operation.DELETE
    topic, broker = ResourceType.TOPIC, ResourceType.BROKER
    kept = [("retention.ms", set_, "7"), ("cleanup.policy", append, "compact"), ("segment.ms", delete, None)]
    await controller.alter_configs([AlterResource(topic, "a", kept)])
    threads = [("log.cleaner.threads", set_, "1")]
    await controller.alter_configs([AlterResource(broker, "1", threads)])
    await controller.alter_configs([AlterResource(broker, "1", threads)])
    await controller.alter_configs([AlterResource(topic, "a", [("max.message.bytes", set_, "9")], True)])
    assert policy.requests == [
        AlterConfigRequest("topic", "a", {"cleanup.policy": "delete,compact", "segment.ms": None}),
        AlterConfigRequest("broker", "1", {"log.cleaner.threads": "1"}),
        AlterConfigRequest("broker", "1", {"log.cleaner.threads": "1"}),
        AlterConfigRequest("topic", "a", {"max.message.bytes": "9"}),
    ]


@on_a_loop
async def test_settings_that_are_forbidden_stay_as_they_are(module):
    controller = await started(module, alter=Asked(forbid("seven days at least")))
    asked = AlterResource(ResourceType.BROKER, "", [("log.retention.ms", Operation.SET, "1")])
    ((_, outcome),) = await controller.alter_configs([asked])
    assert outcome == (ErrorCode.POLICY_VIOLATION, "seven days at least")
    assert "log.retention.ms" not in controller.view.image.configs[ResourceType.BROKER, ""]


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), SystemExit(3), KeyboardInterrupt()])
@on_a_loop
async def test_a_policy_that_fails_refuses_and_the_log_says_why(module, caplog, error):
    def act(request):
        raise error

    controller = await started(module, Asked(act))
    (result,) = await controller.create_topics([NewTopic("a")])
    assert result.outcome.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in result.outcome.message
    assert any(record.exc_info and record.exc_info[1] is error for record in caplog.records)
    assert not controller.view.image.topics


@on_a_loop
async def test_a_policy_that_hangs_refuses_after_its_time_and_others_are_served(module):
    go_on, begun = threading.Event(), threading.Event()

    def act(request):
        begun.set()
        go_on.wait()

    timers = ManualTimers(ManualClock())
    controller = await started(module, Asked(act), timers=timers)
    creating = asyncio.ensure_future(controller.create_topics([NewTopic("a")]))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    asked = AlterResource(ResourceType.BROKER, "", [("log.retention.ms", Operation.SET, "1")])
    ((_, outcome),) = await controller.alter_configs([asked])  # nothing waits for the policy but its request
    assert not outcome.failed
    timers.advance(TIMEOUT_MS)
    (result,) = await creating
    assert result.outcome.error_code is ErrorCode.POLICY_VIOLATION
    assert "has not answered in 5000 ms" in result.outcome.message
    go_on.set()


@on_a_loop
async def test_a_question_that_changes_meanwhile_is_asked_again(module):
    controller, loop = None, asyncio.get_running_loop()

    def act(request):
        if request.configs:  # another broker changes the same topic
            change = ConfigsChanged(ResourceType.TOPIC, "a", {"cleanup.policy": "compact"})
            deciding = controller.decide(lambda image: Decision([change], None))
            asyncio.run_coroutine_threadsafe(deciding, loop).result(10)
        else:
            raise PolicyViolation("nothing would change")

    policy = Asked(act)
    controller = await started(module, alter=policy, thread=ThreadPoolExecutor(1))
    await controller.create_topics([NewTopic("a")])
    asked = AlterResource(ResourceType.TOPIC, "a", [("cleanup.policy", Operation.APPEND, "compact")])
    ((_, outcome),) = await controller.alter_configs([asked])
    assert [request.configs for request in policy.requests] == [{"cleanup.policy": "delete,compact"}, {}]
    assert outcome.message == "nothing would change"


@pytest.mark.parametrize(
    "named", ["no_such_module:Class", "our_policies:Nothing", "our_policies:Broken", "our_policies:NoMethod"]
)
def test_a_class_that_cannot_be_used_is_told_at_the_start(module, named):
    class Broken:
        def configure(self, settings):
            raise ValueError("no rules file")

        def validate(self, request):
            pass

    module.Broken, module.NoMethod = Broken, object
    with pytest.raises(SettingError, match=f"{CREATE}={named} cannot be used"):
        load_policies({CREATE: named}, {}, timeout_ms=1, thread=None, timers=None)
