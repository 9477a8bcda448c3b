"""`moldau connect`: connectors of a Connect cluster (ours, or Kafka's), over its REST interface; and a
worker."""
