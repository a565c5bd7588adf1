"""A constant address for changing primaries, like that of a proxy or an orchestrator.

Not every framework knows Sentinel, and those that do know it differ: this is the same for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Address:
    """Forwards connections, in a thread of its own, to the server that it points at."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._forward(reader, back), self._forward(there, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while some := await reader.read(1 << 16):
                writer.write(some)
                await writer.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def point_at(self, target: int) -> None:
        """Cuts all connections; those that come find the other server."""

        async def point() -> None:
            self._target = target
            for writer in list(self._writers):
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(point(), self._loop).result()

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            with contextlib.suppress(Exception):
                await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
