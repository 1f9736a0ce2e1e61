"""Prints each finished video once, starting with the oldest stored one: `python finished.py`.
A restart continues where the last run stopped. Processes with the same --durable share the videos.
Press Ctrl-C to stop."""

import asyncio
import signal
import sys
from collections import OrderedDict

import nats.errors
from nats.js.api import AckPolicy, ConsumerConfig

from connection import connect, leave, parser
from messages import video_task


async def finished(task: dict) -> None:
    """Handles a finished video; replace the body with your code. After a crash, it may run again
    for the same video."""
    # If the result has no URL, read it by the task's ID (docs/content.md).
    where = " ".join(task["urls"]) or f"GET /v1/videos/{task['id']}/content"
    print(f"{task['id']}  {task['model']}  {where}", flush=True)


async def say_working(message) -> None:
    """Extends the ack deadline every 10 seconds. Otherwise NATS would redeliver after 30 seconds."""
    while True:
        await asyncio.sleep(10)
        await message.in_progress()


async def handle(message) -> None:
    working = asyncio.create_task(say_working(message))
    try:
        await finished(video_task(message.headers, message.data))
    finally:
        working.cancel()


async def read(subscription, stopped: asyncio.Event) -> None:
    """Handles messages one at a time. Delivery is at least once, so it skips events by their
    ce-id. To never act twice, store the ids with the results, for example in a column of the same
    database."""
    seen: OrderedDict[str, None] = OrderedDict()
    while not stopped.is_set():
        try:
            # Only one, because NATS would redeliver others that wait here for 30 seconds.
            [message] = await subscription.fetch(1, timeout=1)
        except asyncio.TimeoutError:
            continue  # no message
        event = message.headers["ce-id"]
        if event not in seen:
            await handle(message)  # if this throws, the program ends, and NATS redelivers the message
            seen[event] = None
            if len(seen) > 10_000:
                seen.popitem(last=False)  # the oldest
        await message.ack()


async def subscribe(nc, durable: str, subject: str):
    """Subscribes with a durable consumer, and creates it if it does not exist. An existing consumer
    keeps its filter, so the program exits if it is for another tenant."""
    subscription = await nc.jetstream().pull_subscribe(
        subject,
        durable=durable,
        stream="GENBUS_TASKS",
        config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT),
    )
    reads = (await subscription.consumer_info()).config.filter_subject
    if reads != subject:
        sys.exit(f"the durable {durable} reads {reads}: give another --durable for {subject}")
    return subscription


async def main() -> None:
    p = parser("Prints each finished video.")
    p.add_argument("--durable", default="python-finished")
    options = p.parse_args()
    nc = await connect(options)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        # completed, failed, cancelled, or * for all
        subscription = await subscribe(nc, options.durable, f"genbus.done.video.{options.tenant}.completed.*")
        print(f"waiting for finished videos of {options.tenant}; Ctrl-C ends it", flush=True)
        await read(subscription, stopped)
    finally:
        await leave(nc)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except nats.errors.Error as err:  # also if the consumer was deleted; a restart recreates it
        sys.exit(f"NATS: {err!r}")
