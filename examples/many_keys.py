"""A queue over several keys of a cluster: find an element by its id, and change the number of keys under full load.

The id determines the key: of all keys, the one whose name, hashed together with the id, gives the highest value. So a new
key takes its share of the ids, and all other ids keep their key. `jobs:keys` has lists of key names: the last list tells
where an id belongs, and the earlier ones where it may still be. No element is moved. An id in a former key stays there
until it is done, whatever commands come for it; an id in no key goes to the new one.

A client with an outdated list must be refused. Beside each key stands the number of the latest list that any client has
used there, and a script refuses clients with an earlier one. many_keys.md has the details.

    python many_keys.py redis://10.0.0.1:6379 jobs keys 3       # the first time; later, for example, 5
    python many_keys.py redis://10.0.0.1:6379 jobs forget       # drops the former keys, when nothing is left in them
"""

import hashlib
import json
import sys
import time

import redis

# Runs a command on the key if the client is up to date; with "if there", only if the id is there.
SCRIPT = """
local latest = tonumber(redis.call('GET', KEYS[2]) or 0)
if latest > tonumber(ARGV[1]) then return {'stale'} end
if latest < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
if ARGV[2] == 'if there' and redis.call('DEHYDRATOR.PTTL', KEYS[1], ARGV[3]) == -2 then return {'elsewhere'} end
return {'done', redis.call(ARGV[4], KEYS[1], unpack(ARGV, 5))}
"""
CHANGE = "if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then return redis.call('SET', KEYS[1], ARGV[2]) end"


def text(reply):
    """Decodes a reply, if the client does not (`decode_responses`)."""
    return reply.decode() if isinstance(reply, bytes) else reply


def home(id, names):
    return max(names, key=lambda name: hashlib.md5(f"{name} {id}".encode()).digest())


class Queue:
    def __init__(self, cluster, name):
        self.cluster, self.name, self.directory = cluster, name, f"{name}:keys"
        self.read()

    def read(self):
        self.text = text(self.cluster.get(self.directory)) or ""
        known = json.loads(self.text or '{"generation": 0, "lists": []}')
        self.generation, self.lists = known["generation"], known["lists"]

    def write(self, lists):
        new = json.dumps({"generation": self.generation + 1, "lists": lists})
        if not self.cluster.eval(CHANGE, 1, self.directory, self.text, new):
            raise RuntimeError("somebody else changes the keys")
        self.read()

    def at(self, key, *words):
        # The hash tag is the whole name of the key, so its generation is in the same slot.
        return self.cluster.eval(SCRIPT, 2, key, f"{key}:generation", self.generation, *words)

    def by_id(self, id, command, *words):
        """Runs a command for one id: in a former key if the id is there, otherwise in the key where it belongs."""
        while True:
            *former, last = (home(id, names) for names in self.lists)
            for key in [*dict.fromkeys(key for key in former if key != last), last]:
                when = "always" if key == last else "if there"
                said, *reply = self.at(key, when, id, command, *words)
                if text(said) == "done":
                    return reply[0] if reply else None
                if text(said) == "stale":
                    self.read()
                    break

    def push(self, id, element, ttl, *options):
        """Like DEHYDRATOR.PUSH. With NX or REPLACE it can be repeated."""
        return self.by_id(id, "DEHYDRATOR.PUSH", ttl, element, id, *options)

    def cancel(self, id):
        return self.by_id(id, "DEHYDRATOR.REM", id)

    def set_keys(self, count):
        """Sets the number of keys: keeps the current ones, and adds names that belong to primaries with too few."""
        if count < 1 or set("{}") & set(self.name):
            raise ValueError("a queue has one key at least, and no braces in its name")
        names = self.lists[-1][:count] if self.lists else []
        most, number = -(-count // len(self.cluster.get_primaries())), 0
        while len(names) < count:
            name, number = f"{{{self.name}:{number}}}", number + 1
            there = self.cluster.get_node_from_key(name)
            of_it = [other for other in names if self.cluster.get_node_from_key(other) == there]
            if name not in names and len(of_it) < most:
                names.append(name)
        for name in names:
            rule = ["HOLD", "DELIVERIES", 5, "STREAM", f"{name}:dead", "MAXLEN", "~", 100_000]
            self.cluster.execute_command("DEHYDRATOR.ONDUE", name, *rule)
        self.write([*self.lists, names])

    def forget(self):
        """Drops the former keys if they hold no id that belongs elsewhere. Returns how many such ids are left."""
        left = 0
        for key in {name for names in self.lists for name in names}:
            self.at(key, "always", "", "DEHYDRATOR.LEN")  # from now on, clients with a former list are refused here
            cursor = None
            while text(cursor) != "0":
                cursor, ids = self.cluster.execute_command("DEHYDRATOR.SCAN", key, cursor or 0, "COUNT", 1000)
                left += sum(home(text(id), self.lists[-1]) != key for id in ids)
        if left == 0:
            self.write(self.lists[-1:])
        return left


def main():
    url, name, what, *count = sys.argv[1:]
    queue = Queue(redis.RedisCluster.from_url(url), name)
    if what == "keys":
        queue.set_keys(int(count[0]))
        print(f"{name}: {' '.join(queue.lists[-1])}")
    while what == "forget" and (left := queue.forget()):
        print(f"{left} elements are left where they do not belong")
        time.sleep(1)


if __name__ == "__main__":
    main()
