"""redis-py and valkey-py. The first argument names the package. What a probe is: see tests/clients/probe.rs."""

import importlib
import sys

package, mode, port, *settings = sys.argv[1:]
settings = dict(setting.split("=", 1) for setting in settings)
library = importlib.import_module(package)
Retry = importlib.import_module(package + ".retry").Retry
NoBackoff = importlib.import_module(package + ".backoff").NoBackoff

options = {"host": "127.0.0.1", "port": int(port)}
if "timeout" in settings:
    options["socket_timeout"] = float(settings["timeout"])
if settings.get("resend") == "off":
    options.update(retry=Retry(NoBackoff(), 0))
if "protocol" in settings:
    options["protocol"] = int(settings["protocol"])
if "replicas" in settings:
    options["read_from_replicas"] = True

clients = {
    ("redis", "single"): "Redis",
    ("redis", "cluster"): "RedisCluster",
    ("valkey", "single"): "Valkey",
    ("valkey", "cluster"): "ValkeyCluster",
}
client = getattr(library, clients[package, mode])(**options)
print("ready", library.__version__, flush=True)
for line in sys.stdin:
    try:
        print("ok", repr(client.execute_command(*line.split())), flush=True)
    except Exception as error:
        print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)
