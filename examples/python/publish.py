"""Requests a video: `python publish.py "a paper boat"`. By default, it waits until genbus accepts
the job, and prints the job ID. With --stream, it stores the request in the inbox, even while no
replica runs."""

import asyncio
import sys
import uuid

import nats.errors

from connection import connect, parser
from genbus.v1 import job_pb2, video_rpc_pb2
from messages import video_request

ATTEMPTS = 3


class Refused(Exception):
    """genbus refused the request. The message contains a code from docs/errors.md."""


async def call(nc, subject: str, request: bytes):
    """Sends the request until there is an answer, and returns the accepted task."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            answer = await nc.request(subject, request, timeout=10)
        except nats.errors.TimeoutError:
            if attempt == ATTEMPTS:
                raise
            continue
        headers = answer.headers or {}
        code = headers.get("genbus-error-code")
        if not code:
            return video_rpc_pb2.CreateVideoTaskResponse.FromString(answer.data).task
        after = headers.get("Retry-After")
        if not after or attempt == ATTEMPTS:
            raise Refused(f"refused: {code}: {job_pb2.TaskError.FromString(answer.data).message}")
        await asyncio.sleep(float(after))  # genbus accepted nothing, as with rate_limited


async def store(nc, subject: str, request: bytes):
    """Stores the request for admission. If no ack arrives, run it again with the same ID."""
    return await nc.jetstream().publish(subject, request, timeout=10)


async def main() -> None:
    p = parser("Requests a video.")
    p.add_argument("prompt", nargs="?", default="a paper boat on a quiet lake")
    p.add_argument("--request-id", default=str(uuid.uuid4()))
    p.add_argument("--model", default="sandbox-video")
    p.add_argument("--stream", action="store_true")
    options = p.parse_args()
    request = video_request(options.request_id, options.model, options.prompt)
    nc = await connect(options)
    try:
        if options.stream:
            ack = await store(nc, f"genbus.request.video.{options.tenant}", request)
            print(f"stored for admission: {ack.stream}, message {ack.seq}, request id {options.request_id}")
        else:
            task = await call(nc, f"genbus.call.video.{options.tenant}", request)
            print(f"accepted: {task.id}, request id {options.request_id}")
    finally:
        await nc.close()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (Refused, nats.errors.Error) as err:
        sys.exit(str(err))
