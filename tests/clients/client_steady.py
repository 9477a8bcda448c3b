"""One long-lived producer of each client library: it writes numbered records, and is never made anew.

What it was told was acknowledged is what a test may count on. Each is idempotent.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from aiokafka import AIOKafkaProducer
from client_agents import AgentClient
from client_aiokafka import AiokafkaClient
from client_model import Client
from confluent_kafka import Producer
from kafka import KafkaProducer

PAUSE_MS = 10
END_WITHIN_S = 240.0


class Steady(ABC):
    """A producer and its thread; `acknowledged` grows."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.prefix = prefix
        self._acknowledged: list[str] = []
        self._failures: list[BaseException] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def acknowledged(self) -> list[str]:
        """The values acknowledged so far."""
        return list(self._acknowledged)

    def stop(self) -> list[str]:
        """Send what is waiting; all acknowledged values. Raises what went wrong."""
        self._stopping.set()
        self._thread.join(END_WITHIN_S)
        assert not self._thread.is_alive(), "the producer does not come to its end"
        if self._failures:
            raise self._failures[0]
        return self.acknowledged()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._failures.append(error)

    @abstractmethod
    def _run(self) -> None:
        """Write until told to stop, then wait for all acknowledgements."""

    def _numbers(self) -> Any:
        number = 0
        while not self._stopping.is_set():
            yield number, f"{self.prefix}{number}"
            time.sleep(PAUSE_MS / 1000)
            number += 1


class ConfluentSteady(Steady):
    def _run(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "log_level": 0,
        }
        producer = Producer(settings)
        for number, value in self._numbers():
            producer.produce(
                self.topic,
                value=value.encode(),
                partition=number % self.partitions,
                on_delivery=self._delivered,
            )
            producer.poll(0)
        assert producer.flush(END_WITHIN_S) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failures.append(RuntimeError(str(error)))
        else:
            self._acknowledged.append(message.value().decode())


class KafkaPythonSteady(Steady):
    def _run(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","), enable_idempotence=True, acks="all", linger_ms=1
        )
        for number, value in self._numbers():
            sent = producer.send(self.topic, value=value.encode(), partition=number % self.partitions)
            sent.add_callback(lambda _, value=value: self._acknowledged.append(value))
            sent.add_errback(self._failures.append)
        producer.flush(END_WITHIN_S)
        producer.close(5)


class AiokafkaSteady(Steady):
    def _run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, acks="all", linger_ms=1
        )
        await producer.start()
        waiting: set[asyncio.Task[None]] = set()
        number = 0
        while not self._stopping.is_set():
            value = f"{self.prefix}{number}"
            sent = await producer.send(self.topic, value.encode(), partition=number % self.partitions)
            task = asyncio.ensure_future(self._note(sent, value))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            await asyncio.sleep(PAUSE_MS / 1000)
            number += 1
        await asyncio.wait_for(asyncio.gather(*waiting), END_WITHIN_S)
        await producer.stop()

    async def _note(self, sent: Any, value: str) -> None:
        try:
            await sent
            self._acknowledged.append(value)
        except Exception as error:
            self._failures.append(error)


class KcatSteady(Steady):
    """kcat tells no acknowledgement; its exit code 0 stands for all of them."""

    def _run(self) -> None:
        command = ["kcat", "-P", "-b", self.bootstrap, "-t", self.topic, "-X", "enable.idempotence=true"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as kcat:
            assert kcat.stdin is not None
            assert kcat.stderr is not None
            written = []
            for _, value in self._numbers():
                kcat.stdin.write(f"{value}\n".encode())
                kcat.stdin.flush()
                written.append(value)
            kcat.stdin.close()
            said = kcat.stderr.read().decode(errors="replace")
            assert kcat.wait(END_WITHIN_S) == 0, said
            self._acknowledged += written


class AgentSteady:
    """A producer in the process of another language."""

    def __init__(self, client: AgentClient, topic: str, partitions: int, prefix: str) -> None:
        self._client = client
        self._name = f"{topic}-steady"
        client.call(
            "steady_start",
            name=self._name,
            topic=topic,
            partitions=partitions,
            prefix=prefix,
            pause_ms=PAUSE_MS,
        )

    def acknowledged(self) -> list[str]:
        """The values acknowledged so far."""
        return list(self._client.call("steady_acknowledged", name=self._name))

    def stop(self) -> list[str]:
        """Send what is waiting; all acknowledged values."""
        return list(self._client.call("steady_stop", within_s=END_WITHIN_S, name=self._name))


def steady(client: Client, bootstrap: str, topic: str, partitions: int) -> Steady | AgentSteady:
    """The long-lived producer of a client."""
    prefix = f"{client.name}-"
    if isinstance(client, AgentClient):
        return AgentSteady(client, topic, partitions, prefix)
    if isinstance(client, AiokafkaClient):
        return AiokafkaSteady(bootstrap, topic, partitions, prefix)
    kinds = {"confluent": ConfluentSteady, "kafka-python": KafkaPythonSteady, "kcat": KcatSteady}
    return kinds[client.name](bootstrap, topic, partitions, prefix)
