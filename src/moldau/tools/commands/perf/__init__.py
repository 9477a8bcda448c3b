"""Load generators on confluent-kafka: `moldau perf` and kafka-*-perf-test speak of the same measurements."""
