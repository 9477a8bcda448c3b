"""Services beside the broker, which reach it as any Kafka client does: schema registry, REST proxy."""
