"""Any sequence of administrative requests: the controller's image equals what its store replays, and stays
sound."""

import asyncio
import random
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.controller.configs import AlterResource
from moldau.broker.controller.controller import Controller
from moldau.broker.controller.election import ElectionType
from moldau.broker.controller.partitions import MorePartitions
from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.configs import topic_settings
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.image import Image, ResourceType
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.ids import ZERO_UUID
from moldau.common.settings.sources import from_texts
from moldau.testing.simulated_files import SimulatedFiles

NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "", "x y", "__consumer_offsets"])
COUNTS = st.integers(-2, 5)
TEXTS = st.sampled_from(["1", "-1", "x", "", "compact", "compact,delete", "99999999999999999999", "true"])
CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "cleanup.policy", "segment.bytes", "nonsense", "preallocate"]),
    TEXTS,
    max_size=2,
)
REQUESTS = st.one_of(
    st.tuples(
        st.just("create"),
        st.lists(
            st.builds(NewTopic, NAMES, COUNTS, COUNTS, assignments=st.just(()), configs=CONFIGS), max_size=4
        ),
    ),
    st.tuples(st.just("needed"), st.lists(NAMES, max_size=2, unique=True)),
    st.tuples(st.just("delete"), st.lists(NAMES, max_size=3)),
    st.tuples(st.just("more"), st.lists(st.builds(MorePartitions, NAMES, st.integers(0, 9)), max_size=3)),
    st.tuples(
        st.just("alter"),
        st.builds(
            AlterResource,
            st.sampled_from([2, 4, 8, 32]),
            st.one_of(NAMES, st.just("1")),
            st.lists(
                st.tuples(
                    st.sampled_from(["retention.ms", "cleanup.policy", "message.max.bytes"]),
                    st.integers(-1, 4),
                    st.one_of(st.none(), TEXTS),
                ),
                max_size=3,
            ),
            st.booleans(),
        ),
    ),
    st.tuples(st.just("elect"), st.sampled_from(ElectionType)),
    st.tuples(st.just("ids"), st.integers(1, 1000)),
)


class NoLock:
    def release(self) -> None:
        pass


async def inline(blocking):
    blocking()


async def open_controller(files: SimulatedFiles) -> Controller:
    store = EmbeddedStore("/data", 600, files=files, lock=lambda folder: NoLock(), offload=inline)
    controller = Controller(1, store, MetadataView(), from_texts({}), random.Random(7))
    await controller.this_broker.open()
    return controller


async def do(controller: Controller, kind: str, what) -> None:
    if kind == "create":
        await controller.create_topics(what)
    elif kind == "needed":
        await controller.auto_create_topics(what)
    elif kind == "delete":
        await controller.delete_topics([(name, ZERO_UUID) for name in what])
    elif kind == "more":
        await controller.create_partitions(what)
    elif kind == "alter":
        await controller.alter_configs([what])
    elif kind == "elect":
        await controller.elect_leaders(what, None)
    else:
        await controller.allocate_producer_ids(what)


def check_sound(image: Image, controller: Controller) -> None:
    assert {topic.topic_id: topic.name for topic in image.topics.values()} == image.topic_names
    forms = [name.replace(".", "_") for name in image.topics]
    assert len(set(forms)) == len(forms)
    for topic in image.topics.values():
        assert topic.partitions
        assert all(state.leader == 1 and state.isr == state.replicas == (1,) for state in topic.partitions)
        topic_settings(image, controller.static_settings.broker, topic.name)
    for kind, name in image.configs:
        assert kind is not ResourceType.TOPIC or name in image.topics


@settings(max_examples=120, deadline=None)
@given(st.lists(REQUESTS, max_size=12))
def test_the_image_is_what_the_store_replays(requests):
    async def scenario() -> None:
        files = SimulatedFiles(1)
        files.make_directory("/data")
        controller = await open_controller(files)
        await controller.this_broker.register({"PLAINTEXT": ("127.0.0.1", 9092)})
        given_ids: set[int] = set()
        for kind, what in requests:
            before = controller.view.image.next_producer_id
            await do(controller, kind, what)
            block = set(range(before, controller.view.image.next_producer_id))
            assert not block & given_ids
            given_ids |= block
            check_sound(controller.view.image, controller)
        last = controller.view.image
        files.power_cut()
        again = await open_controller(files)
        assert again.view.image == last

    asyncio.run(scenario())


def test_requests_run_on_the_machines_own_files_too():
    with tempfile.TemporaryDirectory() as folder:

        async def scenario() -> None:
            controller = Controller(
                1, EmbeddedStore(folder), MetadataView(), from_texts({}), random.Random(7)
            )
            await controller.this_broker.open()
            await controller.this_broker.register({"PLAINTEXT": ("127.0.0.1", 9092)})
            await asyncio.gather(*(controller.create_topics([NewTopic(f"t{n}")]) for n in range(10)))
            last = controller.view.image
            await controller.this_broker.close()
            again = Controller(1, EmbeddedStore(folder), MetadataView(), from_texts({}), random.Random(7))
            await again.this_broker.open()
            assert again.view.image == last
            await again.this_broker.close()

        asyncio.run(scenario())
