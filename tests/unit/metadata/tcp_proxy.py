"""A TCP proxy before a ZooKeeper server, which loses connections and answers on command.

proxy.cut()            connections are closed, and new ones closed at once
proxy.hold()           connections stay, but nothing passes
proxy.mend()           all passes again
proxy.lose_answer()    the next transaction reaches the server; its answer is lost, and the connection
"""

import contextlib
import socket
import struct
import threading

TRANSACTION = 14


class Proxy:
    """One port of loopback, with threads."""

    def __init__(self, port):
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._passes = threading.Event()
        self._passes.set()
        self.is_cut = False
        self.armed = False
        self._lost_xid = None
        self._sockets = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self.is_cut = True
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def hold(self):
        self._passes.clear()

    def mend(self):
        self.is_cut = False
        self._passes.set()

    def lose_answer(self):
        self.armed = True

    def close(self):
        self._closed = True
        self.mend()
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
                if self.is_cut:
                    client.close()
                    continue
                server = socket.create_connection(self._target)
            except OSError:
                continue
            self._sockets += [client, server]
            if self.is_cut:
                self.cut()
            threading.Thread(target=self._pump, args=(client, server, self._sent), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, self._answered), daemon=True).start()

    def _pump(self, source, target, looked_at):
        """Pass frames on: a length of 4 bytes, then what it says."""
        with contextlib.suppress(OSError), source, target:
            data = b""
            while piece := source.recv(1 << 20):
                data += piece
                while len(data) >= 4:
                    end = 4 + struct.unpack_from(">i", data)[0]
                    if len(data) < end:
                        break
                    frame, data = data[:end], data[end:]
                    self._passes.wait()
                    if not looked_at(frame):
                        return
                    target.sendall(frame)

    def _sent(self, frame):
        if self.armed and self._lost_xid is None and len(frame) >= 12:
            xid, kind = struct.unpack_from(">ii", frame, 4)
            if kind == TRANSACTION:
                self._lost_xid = xid
        return True

    def _answered(self, frame):
        if self._lost_xid is None or struct.unpack_from(">i", frame, 4)[0] != self._lost_xid:
            return True
        self._lost_xid = None
        self.cut()
        self.armed = False
        return False
