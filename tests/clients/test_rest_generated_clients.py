"""Two clients that generators make of the OpenAPI document, against a proxy: v2 and v3.

The generators are run here; nothing of theirs is kept. openapi-python-client makes a client on httpx and
attrs, OpenAPI Generator (on Java) one on urllib3 and pydantic.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from rest_v3_client import rest_proxy

from moldau.testing import Broker

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker() as broker, rest_proxy(broker.bootstrap_servers) as address:
        yield address


@pytest.fixture(scope="module")
def document(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(httpx.get(f"{url}/openapi.json", timeout=60).content)
    return path


def run(program: str, *words: object) -> None:
    """Run a generator; `ruff`, which one of them formats with, is found beside it."""
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
    command = [str(programs / program), *map(str, words)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert made.returncode == 0, made.stdout + made.stderr


def imported(folder: Path, name: str) -> ModuleType:
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def test_the_client_that_openapi_python_client_makes(url: str, document: Path, tmp_path: Path) -> None:
    target = tmp_path / "proxy_by_attrs"
    run("openapi-python-client", "generate", "--path", document, "--output-path", target, "--meta", "none")
    made = imported(tmp_path, "proxy_by_attrs")
    models = imported(tmp_path, "proxy_by_attrs.models")
    client = made.Client(base_url=url, timeout=httpx.Timeout(90), raise_on_unexpected_status=True)

    def call(operation: str, *arguments: Any, **more: Any) -> Any:
        function = imported(tmp_path, f"proxy_by_attrs.api.{operation}").sync
        found = function(*arguments, client=client, **more)
        assert not isinstance(found, models.Error), found
        return found

    cluster_id = call("cluster_v_3.list_kafka_v3_clusters").data[0].cluster_id
    topic = models.CreateTopicRequestData(topic_name="attrs", partitions_count=1)
    assert call("topic_v_3.create_kafka_v3_topic", cluster_id, body=topic).partitions_count == 1
    value = models.ProduceRequestData(type_="JSON", data={"level": 98})
    told = call("records_v_3.produce_record", cluster_id, "attrs", body=models.ProduceRequest(value=value))
    assert (told.error_code, told.offset, told.value.type_) == (200, 0, "JSON")
    entry = models.ProduceBatchRequestEntry(id="1", value=value)
    batch = models.ProduceBatchRequest(entries=[entry])
    assert call("records_v_3.produce_records_batch", cluster_id, "attrs", body=batch).successes[0].offset == 1
    page = call("records_v_3.read_records", cluster_id, "attrs", value_format=models.ReadFormat.JSON)
    assert [each.value.data["level"] for each in page.data] == [98, 98]
    setting = models.UpdateConfigRequestData(value="7000")
    call("configs_v_3.update_kafka_v3_topic_config", cluster_id, "attrs", "retention.ms", body=setting)
    found = call("configs_v_3.get_kafka_v3_topic_config", cluster_id, "attrs", "retention.ms")
    assert (found.value, found.is_default) == ("7000", False)
    refused = imported(tmp_path, "proxy_by_attrs.api.topic_v_3.get_kafka_v3_topic")
    assert refused.sync(cluster_id, "none", client=client).error_code == 40403

    records = [models.V2JsonTopicProduceRequestRecordsItem(value={"level": 99})]
    body = models.V2JsonTopicProduceRequest(records=records)
    assert call("topics_v_2.produce_v2", "attrs", body=body).offsets[0].offset == 2
    assert call("topics_v_2.list_partitions_v2", "attrs")[0].partition == 0
    assert call("topics_v_2.get_partition_offsets_v2", "attrs", 0).end_offset == 3
    settings = models.V2CreateInstanceRequest()
    settings.additional_properties = {"name": "one", "format": "json", "auto.offset.reset": "earliest"}
    instance = call("consumers_v_2.create_consumer_v2", "readers", body=settings)
    own = ("readers", instance.instance_id)
    call("consumers_v_2.subscribe_v2", *own, body=models.V2Subscription(topics=["attrs"]))
    read: list[Any] = []
    while len(read) < 3:
        read += call("consumers_v_2.consume_v2", *own)
    assert [each.value["level"] for each in read] == [98, 98, 99]
    call("consumers_v_2.commit_offsets_v2", *own)
    assert call("consumers_v_2.get_subscription_v2", *own).topics == ["attrs"]
    call("consumers_v_2.delete_consumer_v2", *own)
    (lag,) = call("consumer_group_v_3.list_kafka_v3_consumer_lags", cluster_id, "readers").data
    assert (lag.current_offset, lag.lag) == (3, 0)
    call("topic_v_3.delete_kafka_v3_topic", cluster_id, "attrs")


def test_the_client_that_openapi_generator_makes(url: str, document: Path, tmp_path: Path) -> None:
    properties = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    options = ["--package-name", "proxy_by_pydantic", f"--global-property={properties}"]
    run("openapi-generator-cli", "generate", "-i", document, "-g", "python", "-o", tmp_path, *options)
    made = imported(tmp_path, "proxy_by_pydantic")
    with made.ApiClient(made.Configuration(host=url)) as client:
        clusters, topics = made.ClusterV3Api(client), made.TopicV3Api(client)
        records, groups = made.RecordsV3Api(client), made.ConsumerGroupV3Api(client)
        cluster_id = clusters.list_kafka_v3_clusters().data[0].cluster_id
        topic = made.CreateTopicRequestData(topic_name="pydantic", partitions_count=2)
        assert topics.create_kafka_v3_topic(cluster_id, topic).partitions_count == 2
        assert "pydantic" in [each.topic_name for each in topics.list_kafka_v3_topics(cluster_id).data]
        value = made.ProduceRequestData(type="STRING", data="Praha")
        record = made.ProduceRequest(
            partition_id=1, value=value, headers=[made.ProduceRequestHeader(name="a", value="aGk=")]
        )
        told = records.produce_record(cluster_id, "pydantic", record)
        assert (told.error_code, told.partition_id, told.value.size) == (200, 1, 5)
        page = records.read_records(cluster_id, "pydantic", value_format=made.ReadFormat.STRING)
        assert [(each.value.data, each.headers[0].value) for each in page.data] == [("Praha", "aGk=")]
        assert groups.list_kafka_v3_consumer_groups(cluster_id).kind == "KafkaConsumerGroupList"
        with pytest.raises(made.ApiException) as refused:
            topics.get_kafka_v3_topic(cluster_id, "none")
        assert refused.value.status == 404

        old = made.TopicsV2Api(client)
        body = made.V2JsonTopicProduceRequest(
            records=[made.V2JsonTopicProduceRequestRecordsInner(value={"a": 1}, partition=0)]
        )
        assert old.produce_v2("pydantic", body).offsets[0].offset == 0
        assert old.get_topic_v2("pydantic").partitions[1].partition == 1
        assert made.BrokersV2Api(client).list_brokers_v2().brokers
        consumers = made.ConsumersV2Api(client)
        settings = {"name": "two", "format": "json", "auto.offset.reset": "earliest"}
        own = ("watchers", consumers.create_consumer_v2("watchers", settings).instance_id)
        consumers.assign_v2(
            *own, made.V2Assignments(partitions=[made.V2Place(topic="pydantic", partition=0)])
        )
        read: list[Any] = []
        while not read:
            read += consumers.consume_v2(*own)
        assert (read[0].value, read[0].offset) == ({"a": 1}, 0)
        consumers.delete_consumer_v2(*own)
