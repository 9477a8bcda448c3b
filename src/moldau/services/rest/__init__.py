"""`moldau rest`: Kafka over HTTP, with the paths of Confluent's REST proxy (v2 and v3), and a live tail."""
