"""A folder as a Kafka download has it, and the servers started from one."""
