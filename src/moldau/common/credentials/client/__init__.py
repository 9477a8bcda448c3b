"""A client's side of security: what its settings ask for, and the steps of each SASL mechanism.

options.py       `security.protocol`, `ssl.*`, `sasl.*` under Java's or librdkafka's names -> ClientSecurity
contexts.py      ClientSecurity -> ssl.SSLContext, made anew when a file changed
exchange.py      what a mechanism is: bytes -> bytes; the table of mechanisms
plain.py scram.py ...   one mechanism each
librdkafka.py    Java's names -> librdkafka's, for clients built on confluent-kafka

Used by client/, peers/ (a broker is a client of the others), the commands, the Spark source and sink. Nothing
here opens a socket, and nothing prints a secret.
"""
