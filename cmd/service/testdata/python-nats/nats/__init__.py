"""A stand-in for nats-py, where it is not installed: a durable that reads another tenant, an
address that never answers, and a consumer that goes away after two messages."""

import asyncio
from types import SimpleNamespace

from . import errors

wait_for = asyncio.wait_for
asyncio.wait_for = lambda task, timeout: wait_for(task, timeout / 50)  # the test does not wait for as long
READS = "genbus.done.video.default.completed.*"
EVENT = b'{"task": {"id": "video_1", "model": "sandbox-video"}}'


class Message:
    headers = {"ce-id": "1", "ce-datacontenttype": "application/json"}
    data = EVENT

    async def ack(self):
        print("acknowledged", flush=True)


class Subscription:
    left = 2

    async def consumer_info(self):
        return SimpleNamespace(config=SimpleNamespace(filter_subject=READS))

    async def fetch(self, batch, timeout):
        assert batch == 1, f"it fetches {batch}"
        if self.left == 0:
            raise errors.Error("consumer not found")
        self.left -= 1
        return [Message()]


class Connection:
    def jetstream(self):
        return self

    async def pull_subscribe(self, subject, durable, stream, config):
        return Subscription()

    async def drain(self):
        print("drained", flush=True)


async def connect(servers, max_reconnect_attempts, **options):
    if servers == ["nats://never"]:
        assert max_reconnect_attempts == -1
        await options["error_cb"](OSError("refused"))
        await asyncio.Event().wait()
    return Connection()
