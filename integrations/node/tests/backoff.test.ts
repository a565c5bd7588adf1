import assert from "node:assert/strict";
import { test } from "node:test";
import { BACKOFF, waitAfter } from "../src/backoff.js";

test("waits double until the longest, and are shorter by up to half by chance", () => {
  for (const [attempt, most] of [
    [1, 1000],
    [2, 2000],
    [5, 16_000],
    [13, 3_600_000],
    [65_535, 3_600_000],
  ] as const) {
    const waits = Array.from({ length: 500 }, () => waitAfter(attempt, BACKOFF));
    assert.ok(Math.min(...waits) >= most / 2 && Math.max(...waits) <= most, `attempt ${attempt}`);
    assert.ok(Math.max(...waits) - Math.min(...waits) > most / 4, `attempt ${attempt}: not by chance`);
  }
});
