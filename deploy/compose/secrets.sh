#!/bin/sh
# Creates the missing secrets of compose.yaml, with random values, in secrets/ next to this
# file. Only you can enter that directory. The files are readable by all, because Compose
# mounts them into containers that run under other user IDs.
set -eu
cd "$(dirname "$0")"
mkdir -p -m 700 secrets
cd secrets
for name in NATS_ROUTES_PASSWORD NATS_SERVICE_PASSWORD NATS_ADMINISTRATOR_PASSWORD NATS_ACME_PUBLISHER_PASSWORD \
  NATS_ACME_SUBSCRIBER_PASSWORD NATS_ACME_APP_PASSWORD NATS_ACME_ADMINISTRATOR_PASSWORD api-key operator-key; do
  [ ! -e "$name" ] || continue
  # Start with a letter, because NATS parses a value of digits as a number.
  printf 's%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >"$name"
  chmod 444 "$name"
done
