"""What both programs begin with: their options, and the connection."""

import argparse
import os

import nats
import nats.errors


def parser(description: str) -> argparse.ArgumentParser:
    """The options that both have. Secrets come from the environment alone: NATS_USER and
    NATS_PASSWORD, or NATS_CREDS, the path of a credentials file."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--nats", default=os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    p.add_argument("--tenant", default="default")
    p.add_argument("--inbox", default="_INBOX", help="docs/nats-security.md: some users have their own")
    return p


async def connect(options: argparse.Namespace):
    """Connects, for as long as that takes, and again when the connection is lost."""
    return await nats.connect(
        options.nats.split(","),
        inbox_prefix=options.inbox,
        allow_reconnect=True,
        max_reconnect_attempts=-1,
        user=os.environ.get("NATS_USER"),
        password=os.environ.get("NATS_PASSWORD"),
        user_credentials=os.environ.get("NATS_CREDS"),
    )


async def leave(nc) -> None:
    """Sends what was published and acknowledged, and closes."""
    try:
        await nc.drain()
    except nats.errors.Error:
        await nc.close()  # the server is gone, and takes nothing
