#!/bin/sh
# Makes the secrets of compose.yaml that are not there yet, each a random one, in
# secrets/ beside this file. Only you may enter that directory; the files in it are
# mounted one by one, for users of the containers who have other numbers than you.
set -eu
cd "$(dirname "$0")"
mkdir -p -m 700 secrets
cd secrets
for name in NATS_ROUTES_PASSWORD NATS_SERVICE_PASSWORD NATS_ADMINISTRATOR_PASSWORD NATS_ACME_PUBLISHER_PASSWORD \
  NATS_ACME_SUBSCRIBER_PASSWORD NATS_ACME_APP_PASSWORD NATS_ACME_ADMINISTRATOR_PASSWORD api-key operator-key; do
  [ ! -e "$name" ] || continue
  # A letter first: NATS takes a word of digits for a number.
  printf 's%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >"$name"
  chmod 444 "$name"
done
