"""Options and connection of both programs."""

import argparse
import asyncio
import os
import sys

import nats
import nats.errors


def parser(description: str) -> argparse.ArgumentParser:
    """Returns a parser with the common options. Secrets come only from the environment: NATS_USER
    and NATS_PASSWORD, or NATS_CREDS, the path of a credentials file."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--nats", default=os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    p.add_argument("--tenant", default="default")
    p.add_argument("--inbox", default="_INBOX", help="prefix of reply subjects; some NATS users have another one (docs/nats-security.md)")
    return p


async def report(err: Exception) -> None:
    print(f"NATS: {err!r}", file=sys.stderr)


async def connect(options: argparse.Namespace):
    """Connects, or exits after ten seconds. If the connection is lost later, the client reconnects,
    without a limit."""
    attempts = nats.connect(
        options.nats.split(","),
        inbox_prefix=options.inbox,
        allow_reconnect=True,
        max_reconnect_attempts=-1,  # also applies to the first connection
        error_cb=report,
        user=os.environ.get("NATS_USER"),
        password=os.environ.get("NATS_PASSWORD"),
        user_credentials=os.environ.get("NATS_CREDS"),
    )
    try:
        return await asyncio.wait_for(attempts, timeout=10)
    except asyncio.TimeoutError:
        sys.exit(f"cannot connect to NATS at {options.nats} within ten seconds")


async def leave(nc) -> None:
    """Sends buffered messages and acks, and closes the connection."""
    try:
        await nc.drain()
    except nats.errors.Error:
        await nc.close()  # the server is unreachable
