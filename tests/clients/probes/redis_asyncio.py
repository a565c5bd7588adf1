"""redis-py and valkey-py with asyncio. The first argument names the package."""

import asyncio
import importlib
import sys

package, mode, port, *settings = sys.argv[1:]
library = importlib.import_module(package + ".asyncio")
Retry = importlib.import_module(package + ".asyncio.retry").Retry
NoBackoff = importlib.import_module(package + ".backoff").NoBackoff
settings = dict(setting.split("=", 1) for setting in settings)

options = {"host": "127.0.0.1", "port": int(port)}
if "timeout" in settings:
    options["socket_timeout"] = float(settings["timeout"])
if settings.get("resend") == "off":
    options.update(retry=Retry(NoBackoff(), 0))
if "protocol" in settings:
    options["protocol"] = int(settings["protocol"])
if "replicas" in settings:
    options["read_from_replicas"] = True


async def main():
    # For a cluster: asyncio.RedisCluster and asyncio.ValkeyCluster.
    kind = {"redis": "Redis", "valkey": "Valkey"}[package]
    client = getattr(library, kind + "Cluster" if mode == "cluster" else kind)(**options)
    print("ready", importlib.import_module(package).__version__, flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            print("ok", repr(await client.execute_command(*line.split())), flush=True)
        except Exception as error:
            print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)
    await client.aclose()


asyncio.run(main())
