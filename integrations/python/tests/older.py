"""An older module: a proxy before a real server, behind which some commands are not known."""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import Any

#: The commands that an older module lacks, and unknown names of the same length.
LACKS = {b"DEHYDRATOR.EVERY": b"DEHYDRATOR.ABSNT"}


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        with socket.create_connection(("127.0.0.1", server.port)) as there:
            back = threading.Thread(target=forward, args=(there, self.request), daemon=True)
            back.start()
            forward(self.request, there, LACKS)
            back.join()


def forward(source: socket.socket, to: socket.socket, renames: dict[bytes, bytes] | None = None) -> None:
    try:
        while some := source.recv(1 << 16):
            for name, other in (renames or {}).items():
                some = some.replace(name, other)
            to.sendall(some)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class OlderModule(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = port
        self.url = f"redis://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        super().__exit__(*args)
