"""Prints each finished video once, from the oldest that is kept, and goes on where it stopped when
it is started again: `python finished.py`. Ctrl-C ends it. Several that are started with one --durable
share the videos."""

import asyncio
import signal
from collections import OrderedDict

from nats.js.api import AckPolicy, ConsumerConfig

from connection import connect, leave, parser
from messages import video_task


async def finished(task: dict) -> None:
    """What to do with a finished video; yours goes here. It may be called again for the same one
    after a crash."""
    # A result without an address is read by the task's id (docs/content.md).
    where = " ".join(task["urls"]) or f"GET /v1/videos/{task['id']}/content"
    print(f"{task['id']}  {task['model']}  {where}", flush=True)


async def read(subscription, stopped: asyncio.Event) -> None:
    """Handles the messages one by one. Delivery is at least once: an event is known by its ce-id.
    Whoever must never act twice keeps the ids where the deed is kept, such as a column of the same
    database."""
    seen: OrderedDict[str, None] = OrderedDict()
    while not stopped.is_set():
        try:
            messages = await subscription.fetch(10, timeout=1)
        except asyncio.TimeoutError:
            continue  # there was none
        for message in messages:
            event = message.headers["ce-id"]
            if event not in seen:
                # When this throws, the program ends, and the message comes again.
                await finished(video_task(message.headers, message.data))
                seen[event] = None
                if len(seen) > 10_000:
                    seen.popitem(last=False)  # the oldest
            await message.ack()


async def main() -> None:
    p = parser("Prints each finished video.")
    p.add_argument("--durable", default="python-finished")
    options = p.parse_args()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    nc = await connect(options)
    try:
        subscription = await nc.jetstream().pull_subscribe(
            f"genbus.done.video.{options.tenant}.completed.*",  # completed, failed, cancelled, or * for all
            durable=options.durable,
            stream="GENBUS_TASKS",
            config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT),
        )
        print(f"waiting for finished videos of {options.tenant}; Ctrl-C ends it", flush=True)
        await read(subscription, stopped)
    finally:
        await leave(nc)


if __name__ == "__main__":
    asyncio.run(main())
