"""Sends webhooks, twenty at a time: eight attempts with back-off, then a dead letter. Start many, kill any.

Elsewhere: `webhooks.put({"url": "https://…", "body": "…"}, id="order:17", delay=30)`.
"""

import os
import urllib.error
import urllib.request

from dehydrator_queue import Backoff, Job, Queue, Reject, Worker

webhooks = Queue(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), "webhooks")


def send(job: Job) -> None:
    request = urllib.request.Request(job.payload["url"], job.payload["body"].encode(), {"Idempotency-Key": job.id})
    try:
        urllib.request.urlopen(request, timeout=10)
    except urllib.error.HTTPError as error:
        raise Reject("nobody wants it any more") if error.code == 410 else error from None


if __name__ == "__main__":
    patience = Backoff(first=float(os.environ.get("FIRST_WAIT", "1")), most=600)
    lease = float(os.environ.get("LEASE", "30"))
    Worker(webhooks, send, concurrency=20, lease=lease, attempts=8, backoff=patience).run()
