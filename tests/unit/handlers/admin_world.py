"""A broker as far as administrative handlers see it: a real controller on a real store, and nothing else."""

import inspect
import random
from types import SimpleNamespace

from moldau.broker.controller.controller import Controller
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.slow_lane import SlowLane, all_steps
from moldau.common.settings.sources import from_texts


async def start(folder, **texts):
    """A registered broker 1 with two listeners; `texts` are settings with `_` for `.`."""
    static = from_texts({name.replace("_", "."): value for name, value in texts.items()})
    view = MetadataView()
    controller = Controller(1, EmbeddedStore(folder), view, static, random.Random(3))
    await controller.this_broker.open()
    await controller.this_broker.register(
        {"PLAINTEXT": ("127.0.0.1", 9092), "OUTSIDE": ("kafka.example", 19092)}, "r1"
    )
    return SimpleNamespace(
        node_id=1,
        settings=controller.settings,
        metadata=view,
        controller=controller,
        authorizer=None,
        slow_lane=SlowLane(),
        check_stores=None,
    )


async def ask(broker, request, version=None, listener="PLAINTEXT"):
    """Send the request through its bytes in `version` (the newest if None); gives the answer, through its
    bytes too."""
    entry = TABLE[type(request).KEY]
    version = entry.max_version if version is None else version
    broker.settings = broker.controller.settings
    request = type(request).decode(request.encode(version), version)
    context = RequestContext(version, 1, Session(listener, client_host="127.0.0.1", client_id="test"))
    answer = entry.handler(broker, context, request)
    if inspect.isgenerator(answer):
        answer = all_steps(answer)
    if inspect.isawaitable(answer):
        answer = await answer
    return type(request).RESPONSE.decode(answer.encode(version), version)


def every_version(message):
    """The versions of a request message."""
    low, high = message.VERSIONS
    return range(low, high + 1)
