"""TLS of both ends: key and trust stores as Kafka's settings name them become an `ssl.SSLContext`.

options.py       the ssl.* settings of one listener or one client
stores.py        a key store or trust store of any format -> PEM blocks (pem.py, jks.py, pkcs12.py)
contexts.py      options -> SSLContext: `client_context`, `server_context`
ciphers.py       Kafka's (Java's) names of cipher suites in OpenSSL's
stream.py        TLS between a transport and a protocol; handshakes.py computes handshakes in workers
failures.py      why a handshake failed, as a sentence
certificate.py   what a certificate says: names, validity

PEM and JKS need nothing but the standard library; PKCS12 needs `cryptography`.
"""
