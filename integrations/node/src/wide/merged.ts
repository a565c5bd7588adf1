// Merges the rows of several keys.

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
