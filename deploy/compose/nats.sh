#!/bin/sh
# Starts nats-server in compose.yaml: its configuration wants passwords in variables, and
# compose gives them as files, so that "docker inspect" does not show them.
set -eu
for file in /run/secrets/NATS_*; do
  value=$(cat "$file")
  export "${file##*/}=$value"
done
for n in 1 2 3; do
  export "NATS_ROUTE_$n=nats://routes:$NATS_ROUTES_PASSWORD@nats-$n:6222"
done
exec nats-server -c /etc/nats/cluster.conf
