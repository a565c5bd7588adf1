// Merges the rows of several keys, and what DEHYDRATOR.INFO tells of each.

type Info = Record<string, unknown>;

const SUMMED = new Set(
  "length due given-out ttls memory failures remembered running rate-room leased given-back overdue".split(" "),
);
const MERGED: Record<string, (...values: number[]) => number> = {
  "next-deadline": Math.min,
  "oldest-due-ms": Math.max,
  paused: Math.max,
  "paused-until": Math.max,
  groups: Math.max,
};

/** Merges the fields. Those that are of one key only, such as limits, are of the first. */
export function mergedInfo(rows: readonly Info[]): Info {
  const merged = Object.entries(rows[0] ?? {}).map(([name, first]) => {
    const known = rows.map((row) => row[name]).filter((value) => value !== null && value !== undefined) as number[];
    const merge = SUMMED.has(name) ? (...all: number[]) => all.reduce((sum, one) => sum + one, 0) : MERGED[name];
    if (merge === undefined) return [name, first];
    return [name, known.length === 0 ? null : merge(...known)];
  });
  return Object.fromEntries(merged);
}

/** Yields the rows of all, by their deadlines, if each is in that order. */
export async function* mergedRows<R extends { due: Date }>(all: readonly AsyncIterator<R>[]): AsyncGenerator<R> {
  const heads = await Promise.all(all.map(async (rows) => ({ rows, head: await rows.next() })));
  for (;;) {
    let first: (typeof heads)[number] | undefined;
    for (const one of heads) {
      if (one.head.done) continue;
      if (first === undefined || one.head.value.due < first.head.value.due) first = one;
    }
    if (first === undefined) return;
    yield first.head.value as R;
    first.head = await first.rows.next();
  }
}
