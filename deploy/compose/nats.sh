#!/bin/sh
# Starts nats-server in compose.yaml. Compose passes the passwords as files, so that
# "docker inspect" does not show them. This script exports them as variables, because the
# NATS configuration reads variables.
set -eu
for file in /run/secrets/NATS_*; do
  value=$(cat "$file")
  export "${file##*/}=$value"
done
for n in 1 2 3; do
  export "NATS_ROUTE_$n=nats://routes:$NATS_ROUTES_PASSWORD@nats-$n:6222"
done
exec nats-server -c /etc/nats/cluster.conf
