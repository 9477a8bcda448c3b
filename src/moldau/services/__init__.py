"""Services beside the broker, which reach it as any Kafka client does: registry, REST proxy, Connect."""
