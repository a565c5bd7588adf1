"""valkey-glide of Python, of which the client for Node shares the core."""

import asyncio
import sys
from importlib.metadata import version

import glide

mode, port, *settings = sys.argv[1:]
settings = dict(setting.split("=", 1) for setting in settings)

options = {"addresses": [glide.NodeAddress("127.0.0.1", int(port))]}
if "timeout" in settings:
    options["request_timeout"] = round(float(settings["timeout"]) * 1000)
if settings.get("protocol") == "2":
    options["protocol"] = glide.ProtocolVersion.RESP2
if "replicas" in settings:
    options["read_from"] = glide.ReadFrom.PREFER_REPLICA


async def main():
    glide.Logger.init(glide.LogLevel.OFF)
    if mode == "cluster":
        client = await glide.GlideClusterClient.create(glide.GlideClusterClientConfiguration(**options))
    else:
        client = await glide.GlideClient.create(glide.GlideClientConfiguration(**options))
    print("ready", version("valkey-glide"), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            print("ok", repr(await client.custom_command(line.split())), flush=True)
        except Exception as error:
            print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)
    await client.close()


asyncio.run(main())
