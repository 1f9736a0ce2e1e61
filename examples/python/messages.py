"""Encodes requests and decodes events. This module does not depend on NATS."""

import json

from genbus.v1 import video_pb2


def video_request(request_id: str, model: str, prompt: str) -> bytes:
    """Encodes a request. With the same request ID, sending it again attaches to the same job, which
    is paid for once."""
    return video_pb2.VideoRequest(
        request_id=request_id,
        video=video_pb2.VideoGeneration(model=model, prompt=prompt),
        labels={"from": "examples/python"},
    ).SerializeToString()


def video_task(headers: dict[str, str], data: bytes) -> dict:
    """Returns the id, the model and the result URLs of an event's task, in either encoding."""
    if headers.get("ce-datacontenttype") == "application/json":
        task = json.loads(data)["task"]
        urls = [video.get("url") for video in task.get("videos", [])]
        return {"id": task["id"], "model": task["model"], "urls": [u for u in urls if u]}
    task = video_pb2.VideoTaskEvent.FromString(data).task
    return {"id": task.id, "model": task.model, "urls": [v.url for v in task.videos if v.url]}
