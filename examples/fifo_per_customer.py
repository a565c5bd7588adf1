"""FIFO per customer: any number of workers, and each customer's jobs are done in order, one at a time.

Each customer is a group, and a group has at most one job leased (LIMIT ... EACH HELD 1). Settling it frees the next one.
If its worker dies, a job comes again before the others of its customer.

Prints:

    the first worker gets: anna 1, bert 1
    a second worker gets: nothing
    once anna 1 is done: anna 2
"""

import os

import redis

JOBS = "demo:jobs"


def poll(server):
    return server.execute_command("DEHYDRATOR.POLL", JOBS, "COUNT", 10, "LEASE", 60_000)


def main():
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    server = redis.Redis.from_url(url, decode_responses=True)
    server.delete(JOBS)
    server.execute_command("DEHYDRATOR.LIMIT", JOBS, "EACH", "HELD", 1)
    for job in ["anna 1", "anna 2", "bert 1", "anna 3"]:
        server.execute_command("DEHYDRATOR.PUSH", JOBS, 0, job, job, "NX", "GROUP", job.split()[0])
    held = poll(server)
    print("the first worker gets:", ", ".join(job for _, job, _, _ in held))
    print("a second worker gets:", poll(server) or "nothing")
    id, job, _, token = held[0]
    server.execute_command("DEHYDRATOR.SETTLE", JOBS, token, id)
    print(f"once {job} is done:", poll(server)[0][1])
    server.delete(JOBS)


if __name__ == "__main__":
    main()
