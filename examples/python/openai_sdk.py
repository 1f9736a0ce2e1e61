"""Streams a chat and makes a video with the OpenAI SDK: `python openai_sdk.py`."""

import time

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any")

messages = [{"role": "user", "content": "hello"}]
for chunk in client.chat.completions.create(model="sandbox-chat", messages=messages, stream=True):
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()

# A create with the same key returns the same video.
headers = {"Idempotency-Key": "python-7"}
video = client.videos.create(model="sandbox-videos", prompt="a cat", seconds="4", extra_headers=headers)
while video.status in ("queued", "in_progress"):
    time.sleep(1)
    video = client.videos.retrieve(video.id)
print(video.id, video.status)
