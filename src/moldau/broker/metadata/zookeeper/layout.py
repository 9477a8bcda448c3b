"""The names of the nodes. All lie below the chroot of `zookeeper.connect`, here `root`.

    /brokers/ids/<node id>          ephemeral   Kafka's discovery nodes (discovery.py): for people and tools
    /controller                     ephemeral
    /controller_epoch                           the last controller's epoch; its node's version fences
    /cluster/id
    /moldau                                     what this store needs: format, base of broker epochs
    /moldau/head                                version of the newest entry; one `set` an entry
    /moldau/entries/<version>                   one entry of the log
    /moldau/snapshot                            version and parts of the newest snapshot
    /moldau/parts/<id>-<number>                 what is larger than a node may be, in parts
    /moldau/live/<node id>-<sequence> ephemeral a broker's registration

The node version of `head` grows with the log's version, both by one for each entry: a `set` of head under the
node version that belongs to log version N succeeds only while the log is at N.
"""

from typing import NamedTuple


class Layout(NamedTuple):
    """The nodes of one cluster. `root`: "" or the chroot, `/a/b`."""

    root: str = ""

    def _at(self, path: str) -> str:
        return self.root + path

    # Kafka's

    @property
    def brokers(self) -> str:
        return self._at("/brokers")

    @property
    def ids(self) -> str:
        return self._at("/brokers/ids")

    def broker(self, node_id: int) -> str:
        """A broker's discovery node."""
        return f"{self.ids}/{node_id}"

    @property
    def controller(self) -> str:
        return self._at("/controller")

    @property
    def controller_epoch(self) -> str:
        return self._at("/controller_epoch")

    @property
    def cluster(self) -> str:
        return self._at("/cluster")

    @property
    def cluster_id(self) -> str:
        return self._at("/cluster/id")

    # Moldau's

    @property
    def base(self) -> str:
        return self._at("/moldau")

    @property
    def head(self) -> str:
        return self._at("/moldau/head")

    @property
    def entries(self) -> str:
        return self._at("/moldau/entries")

    def entry(self, version: int) -> str:
        """The node of the entry that led to `version`."""
        return f"{self.entries}/{version:010d}"

    @property
    def snapshot(self) -> str:
        return self._at("/moldau/snapshot")

    @property
    def parts(self) -> str:
        return self._at("/moldau/parts")

    def part(self, payload_id: str, number: int) -> str:
        """One part of a payload."""
        return f"{self.parts}/{payload_id}-{number:04d}"

    @property
    def live(self) -> str:
        return self._at("/moldau/live")

    def chroot_steps(self) -> list[str]:
        """The nodes that lead to the root, outermost first."""
        names = [name for name in self.root.split("/") if name]
        return ["/" + "/".join(names[: count + 1]) for count in range(len(names))]
