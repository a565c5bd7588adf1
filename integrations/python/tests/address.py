"""A constant address for changing primaries, like that of a name, a proxy or a virtual IP."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from servers import RealServer


class Address:
    """A port that forwards to the server that was set last."""

    def __init__(self, target: RealServer) -> None:
        self._target = target.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._silent: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, target: RealServer, cut: bool = False) -> None:
        """`cut`: the connections that are open are closed; if not, they lead where they led."""
        with self._lock:
            self._target = target.port
            connections, self._open = (self._open, set()) if cut else (set(), self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def fall_silent(self) -> None:
        """Lets nothing more through on the connections that are open, either way, and does not close them."""
        with self._lock:
            self._silent |= self._open

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with self._lock:
                    try:
                        server = socket.create_connection(("127.0.0.1", self._target))
                    except OSError:
                        client.close()
                        continue
                    self._open |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while some := source.recv(65536):
                if source not in self._silent:
                    sink.sendall(some)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, sink}
            self._silent -= {source, sink}

    def close(self) -> None:
        # Wakes the thread in accept.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
