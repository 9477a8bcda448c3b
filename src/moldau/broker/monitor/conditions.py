"""The table of health conditions, read by the probes, the metrics, the documentation and the tests.

A condition is a problem with a cause and a remedy. A warning makes the verdict *degraded*: all requests are
still served. A failure makes it *failing*: some requests are refused. A condition that makes the broker
*unready* also takes it out of a load balancer, because no request would succeed.
"""

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """The severity; the worst one present is the verdict."""

    WARN = 1
    FAIL = 2


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table."""

    severity: Severity
    meaning: str
    remedy: str
    unready: bool = False
    passing: bool = False
    """Belongs to every start or stop: logged only when it lasts."""


_WARN, _FAIL = Severity.WARN, Severity.FAIL

CONDITIONS: dict[str, Kind] = {
    "starting": Kind(
        _WARN,
        "The broker has not started completely; no client is served yet.",
        "Wait; if it persists, see the log for the reason.",
        unready=True,
        passing=True,
    ),
    "recovery": Kind(
        _WARN,
        "The logs are being opened; after an unclean stop (a crash, a power cut) they are also checked.",
        "Wait until it is done. A broker that is stopped with SIGTERM and given time needs no recovery.",
        unready=True,
    ),
    "stopping": Kind(
        _WARN,
        "The broker is shutting down.",
        "None is needed: this is what was asked for.",
        unready=True,
        passing=True,
    ),
    "listener-down": Kind(
        _FAIL,
        "A listener does not accept connections.",
        "See the log for the reason (address in use, permission), correct `listeners` and restart.",
    ),
    "certificate-expires": Kind(
        _WARN,
        "The certificate of a listener with TLS ends within two weeks: clients then refuse to connect.",
        "Put a new certificate into the listener's key store: the broker takes changed files up by itself "
        "(`moldau security certificates --renew` for those made here).",
    ),
    "certificate-expired": Kind(
        _FAIL,
        "The certificate of a listener with TLS has ended, or does not hold yet: clients refuse to connect.",
        "Put a new certificate into the listener's key store, or correct the clock: the broker takes changed "
        "files up by itself.",
    ),
    "certificate-not-renewed": Kind(
        _WARN,
        "A listener's new key store or trust store cannot be used; connections get the old ones.",
        "The message has the cause; correct the file or the settings, and the broker takes them up by "
        "itself.",
    ),
    "token-keys-not-loaded": Kind(
        _WARN,
        "The keys of a token issuer (OAUTHBEARER) could not be loaded; those known stay in use.",
        "The message has the cause; see that the broker reaches sasl.oauthbearer.jwks.endpoint.url. It tries "
        "again by itself.",
    ),
    "disk-nearly-full": Kind(
        _WARN,
        "The free share of a data disk is below moldau.health.disk.min.free.ratio.",
        "Free space, shorten retention.ms or retention.bytes of the largest topics (`moldau topics "
        "describe`), or add a directory to log.dirs.",
    ),
    "log-dir-full": Kind(
        _FAIL,
        "A data disk is full: produce requests to it fail with KAFKA_STORAGE_ERROR, reads go on.",
        "Free space on it; the broker resumes by itself. A shorter retention frees some.",
    ),
    "log-dir-offline": Kind(
        _FAIL,
        "A data directory failed (an I/O error), and its partitions are offline.",
        "Look at the disk (dmesg, its mount), repair or replace it, and restart the broker.",
    ),
    "all-log-dirs-offline": Kind(
        _FAIL,
        "No data directory works: nothing can be read or written.",
        "Look at the disks (dmesg, their mounts), repair them, and restart the broker.",
        unready=True,
    ),
    "offline-partitions": Kind(
        _FAIL,
        "Partitions have no leader, so that they can be neither written nor read.",
        "Start the brokers that hold them, or repair their log directory.",
    ),
    "partitions-unopened": Kind(
        _FAIL,
        "Logs of partitions could not be opened or created: their requests fail with KAFKA_STORAGE_ERROR.",
        "The message has the cause. On a full disk make room: it is tried again by itself. Of a damaged log "
        "restore the files, or move its folder away if its records may be lost, and restart the broker.",
    ),
    "partitions-damaged": Kind(
        _FAIL,
        "A batch in a file of this broker is not what was written (the disk or another program changed it): "
        "consumers and followers that come there get CORRUPT_MESSAGE.",
        "Where another replica is in sync, stop this broker, which makes that one lead, move the partition's "
        "folder away, and start it: the log is fetched again. Where there is none, consumers must be set "
        "behind the damage. Look at the disk.",
    ),
    "batches-unreadable": Kind(
        _WARN,
        "The records of a batch cannot be read: every consumer stands still there. It was written so (by an "
        "earlier version, a mirror, or with moldau.records.check=false), or, where the message says that its "
        "crc is wrong, damaged on the disk. Compaction or a search by time has met it; a fetch does not look "
        "into batches.",
        "`moldau dump-log` shows the batch. Where its crc is wrong, proceed as for partitions-damaged. Else "
        "set consumers behind it: `moldau groups reset-offsets GROUP --topic TOPIC:PARTITION --to-offset "
        "OFFSET --execute`. Retention or `kafka-delete-records` removes it.",
    ),
    "internal-topics-missing": Kind(
        _FAIL,
        "__consumer_offsets or __transaction_state could not be created: consumer groups or transactions do "
        "not work.",
        "The message has the cause. Where there are fewer brokers than the topic shall have replicas, start "
        "the others, or lower offsets.topic.replication.factor or transaction.state.log.replication.factor; "
        "clients that wait try again by themselves.",
    ),
    "metadata-behind": Kind(
        _FAIL,
        "A part of the broker failed to follow a change of the metadata: topics, partitions or settings are "
        "not as the metadata says.",
        "It is tried again every second; the log has the change and the error. If it stays, restart the "
        "broker, and report the error.",
    ),
    "under-min-isr": Kind(
        _FAIL,
        "Partitions have fewer in-sync replicas than min.insync.replicas: writes with acks=all are refused.",
        "Start the missing brokers, or lower min.insync.replicas of these topics if you accept the risk.",
    ),
    "at-min-isr": Kind(
        _WARN,
        "Partitions led here have as few in-sync replicas as min.insync.replicas demands: with one fewer "
        "writes with acks=all are refused.",
        "See under-replicated for the missing brokers; start them before another one is stopped.",
    ),
    "under-replicated": Kind(
        _WARN,
        "Partitions have fewer in-sync replicas than replicas: a further failure may lose records.",
        "Start the missing brokers, and let them catch up.",
    ),
    "broker-gone": Kind(
        _WARN,
        "A registered broker does not live.",
        "Start it; or, if it will not come back, remove it: `moldau brokers remove`.",
    ),
    "no-controller": Kind(
        _WARN,
        "No live broker is the controller: partitions of a broker that stops now get no other leader.",
        "Brokers seek the seat by themselves. If it stays vacant, see metadata-store-lost, and the log.",
    ),
    "metadata-store-lost": Kind(
        _WARN,
        "The metadata store (ZooKeeper) is not reached. What is led here is served; changes of topics, "
        "settings, leaders and in-sync sets wait. When the session ends, other brokers lead its partitions.",
        "Look at the ZooKeeper ensemble (a majority of its members must live), and at the network to it.",
    ),
    "metadata-store-slow": Kind(
        _WARN,
        "The metadata store (ZooKeeper) takes more than a second to answer: elections take longer.",
        "Look at the ensemble's disks (it forces every write), its CPU, and the network to it.",
    ),
    "leader-unreachable": Kind(
        _WARN,
        "This broker cannot fetch from a leader: its replicas fall behind and leave the in-sync sets.",
        "The message has the cause; look at that broker, and at the network between the two.",
    ),
    "in-sync-flapping": Kind(
        _WARN,
        "A broker that lives leaves in-sync sets again and again: it cannot keep up, or not all of the time.",
        "Look at its disks, CPU and network, and at slow-fsync and event-loop-lag there; a longer "
        "replica.lag.time.max.ms hides short pauses.",
    ),
    "leaders-uneven": Kind(
        _WARN,
        "One broker leads far more partitions than the others, and so serves most clients.",
        "auto.leader.rebalance.enable brings leadership back to the preferred replicas, `moldau topics "
        "elect` does so now; `moldau brokers rebalance` evens out the replicas themselves.",
    ),
    "round-trip-failing": Kind(
        _FAIL,
        "Records that this broker writes through its own listener (moldau.health.round.trip.interval.ms) are "
        "not acknowledged, or not read back: two or more in a row.",
        "The message has the step and the error. Other conditions usually name the cause; if the broker does "
        "not reach the address that it advertises, see `moldau doctor` for whether clients do.",
    ),
    "round-trip-slow": Kind(
        _WARN,
        "Writing a record with acks=all through the broker's own listener and reading it back took more than "
        "a second.",
        "Look at event-loop-lag, slow-fsync and under-replicated; producers with acks=all wait as long.",
    ),
    "event-loop-lag": Kind(
        _WARN,
        "The event loop runs late, so that every request waits: it lacks CPU, or something holds it.",
        "Give the broker more CPU (see container limits), or spread its clients over more brokers.",
    ),
    "slow-fsync": Kind(
        _WARN,
        "Forcing records to the disk takes long, and with moldau.durability=group producers wait for it.",
        "Use a faster or less busy disk, or moldau.durability=os if a power cut may cost the last records.",
    ),
    "appends-waiting": Kind(
        _WARN,
        "Many written batches wait to be committed: the disk or the in-sync replicas do not keep up.",
        "Look at slow-fsync and under-replicated first; then reduce what producers send.",
    ),
    "request-memory-full": Kind(
        _WARN,
        "Requests being received used up queued.max.request.bytes; large ones were read one after the other.",
        "If clients that you know send that much at once, raise queued.max.request.bytes; else see the log "
        "for the disconnected clients.",
    ),
    "response-memory-full": Kind(
        _WARN,
        "Clients left more than half of moldau.queued.max.response.bytes of responses unread: consumers get "
        "smaller responses, and clients that read nothing are disconnected.",
        "See the log for the disconnected clients, and check them; if many slow ones are usual, raise "
        "moldau.queued.max.response.bytes.",
    ),
    "client-state-full": Kind(
        _WARN,
        "What clients make the broker keep has nearly used up moldau.client.state.max.bytes, or did so in "
        "the last minute: fetch sessions and unfinished logins are closed, then joins of groups refused.",
        "moldau_client_state_used_bytes tells which kind; if your clients need as much, raise "
        "moldau.client.state.max.bytes.",
    ),
    "transaction-hanging": Kind(
        _WARN,
        "A transaction is open in a partition and no coordinator knows it: read_committed readers would wait "
        "for ever.",
        "Run the command that the message names; docs/transactions.md explains the causes.",
    ),
    "transaction-open-long": Kind(
        _WARN,
        "A transaction holds back read_committed readers for longer than "
        "moldau.health.transaction.max.age.ms, or beyond its own timeout.",
        "Look at its producer; it needs shorter transactions or a shorter transaction.timeout.ms. "
        "`moldau transactions terminate` ends the transaction and fences the producer.",
    ),
    "transaction-markers-late": Kind(
        _WARN,
        "Transactions are decided, but partitions do not know it yet, and read_committed readers wait there.",
        "Look at offline-partitions and the disks first; `moldau transactions describe` names the places.",
    ),
    "log-uncleanable": Kind(
        _WARN,
        "A compacted log could not be cleaned: it grows, and old values and deleted keys stay in it.",
        "The message has the cause. It is tried again by itself; a damaged segment needs a restored replica, "
        "or the topic written anew.",
    ),
    "compaction-behind": Kind(
        _WARN,
        "A compacted log has been waiting for its clean for more than an hour.",
        "Raise log.cleaner.threads or log.cleaner.io.max.bytes.per.second, or give the broker more CPU.",
    ),
    "mirror-faulted": Kind(
        _WARN,
        "A topic that mirrors another cluster's is not pulled any more: it is no copy of that topic.",
        "The message has the cause. Delete the copy and mirror the topic anew, or fail it over to keep what "
        "it has; `moldau mirror resume` tries again.",
    ),
    "mirror-behind": Kind(
        _WARN,
        "A mirror lacks what its source has written for more than a minute.",
        "The message has the cause: the source cannot be reached, refuses, or writes faster than is pulled.",
    ),
    "mirror-cut": Kind(
        _WARN,
        "The source of a mirror had lost records (an unclean election), so that they were cut off here too; "
        "until this broker restarts.",
        "None here. At the source, unclean.leader.election.enable=false and more replicas prevent it.",
    ),
    "file-descriptors": Kind(
        _WARN,
        "The process has nearly as many files and connections open as it may; at the limit both fail.",
        "Raise the limit (ulimit -n, LimitNOFILE= in systemd), or bound clients with max.connections.",
    ),
    "clock-jumped-back": Kind(
        _WARN,
        "The machine's clock was set back: record timestamps and retention by time are off by that much.",
        "Let chrony or ntpd keep the clock in slewing mode, and check the virtual machine's time source.",
    ),
    "probe-failed": Kind(
        _WARN,
        "A health probe itself failed, so that this verdict may miss something.",
        "Report it: this is a bug.",
    ),
}
"""Every condition there is, by name; the documentation must explain each."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A problem that exists now. `message` has its figures."""

    name: str
    severity: Severity
    message: str
    remedy: str

    @property
    def unready(self) -> bool:
        """Whether no request would succeed."""
        kind = CONDITIONS.get(self.name)
        return kind is not None and kind.unready

    @property
    def passing(self) -> bool:
        """Whether it occurs at every start or stop, so that it is logged only if it lasts."""
        kind = CONDITIONS.get(self.name)
        return kind is not None and kind.passing


def condition(name: str, message: str) -> Condition:
    """A condition with the severity and remedy of its row in the table."""
    kind = CONDITIONS[name]
    return Condition(name, kind.severity, message, kind.remedy)
