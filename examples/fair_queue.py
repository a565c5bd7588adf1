"""One queue, many tenants: the small ones do not wait for the large one.

A tenant puts a thousand jobs into the queue, and then two others put one each. Each tenant is a group (PUSH ... GROUP), and
groups take turns: a worker gets the small tenants' jobs second and third. A tenant that pays for it gets three jobs in each
of its turns (LIMIT ... GROUP ... SHARE).

Prints:

    1,002 jobs of 3 tenants wait
    the first: big, small, tiny, big, big
    with a share of 3: big, big, big, late, big, big, big
"""

import os

import redis

JOBS = "demo:jobs"


def put(server, tenant, count):
    with server.pipeline(transaction=False) as pipe:
        for number in range(count):
            id = f"{tenant}:{number}"
            pipe.execute_command("DEHYDRATOR.PUSH", JOBS, 0, tenant, id, "NX", "GROUP", tenant)
        pipe.execute()


def main():
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    server = redis.Redis.from_url(url, decode_responses=True)
    server.delete(JOBS)
    put(server, "big", 1000)
    put(server, "small", 1)
    put(server, "tiny", 1)
    count = server.execute_command("DEHYDRATOR.LEN", JOBS)
    print(f"{count:,} jobs of 3 tenants wait")

    first = server.execute_command("DEHYDRATOR.POLL", JOBS, "COUNT", 5)
    print("the first:", ", ".join(first))

    server.execute_command("DEHYDRATOR.LIMIT", JOBS, "GROUP", "big", "SHARE", 3)
    put(server, "late", 1)
    first = server.execute_command("DEHYDRATOR.POLL", JOBS, "COUNT", 7)
    print("with a share of 3:", ", ".join(first))
    server.delete(JOBS)


if __name__ == "__main__":
    main()
