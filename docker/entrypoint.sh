#!/bin/sh
# `serve` (or nothing): a broker, set up by KAFKA_* variables as Kafka's image is, or by a server.properties in
# /mnt/shared/config. Any other moldau command runs as it is; so does any program of the image.
set -eu

if [ "$#" -eq 0 ]; then
    set -- serve
fi
if [ "$1" != serve ]; then
    if command -v "$1" >/dev/null 2>&1; then
        exec "$@"
    fi
    exec moldau "$@"
fi
shift

config=/mnt/shared/config/server.properties
if [ -e "$config" ]; then
    set -- --config "$config" "$@"
elif [ -z "${KAFKA_LISTENERS:-}" ]; then
    # As Kafka's image: reached from outside of the container, and told by the address on this machine.
    export KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092
    export KAFKA_ADVERTISED_LISTENERS="${KAFKA_ADVERTISED_LISTENERS:-PLAINTEXT://localhost:9092}"
fi
if [ ! -e "$config" ] && [ -z "${KAFKA_LOG_DIRS:-}${KAFKA_LOG_DIR:-}" ]; then
    export KAFKA_LOG_DIRS=/var/lib/kafka/data
fi
if [ -n "${CLUSTER_ID:-}" ] && [ -n "${KAFKA_LOG_DIRS:-}" ]; then
    first=${KAFKA_LOG_DIRS%%,*}
    if [ ! -e "$first/meta.properties" ]; then
        mkdir -p "$first"
        properties=$(mktemp)
        printf 'log.dirs=%s\nnode.id=%s\n' "$KAFKA_LOG_DIRS" "${KAFKA_NODE_ID:-${KAFKA_BROKER_ID:-1}}" >"$properties"
        /opt/kafka/bin/kafka-storage.sh format --ignore-formatted --cluster-id "$CLUSTER_ID" --config "$properties"
        rm -f "$properties"
    fi
fi
exec moldau serve "$@"
