// The fields of DEHYDRATOR.INFO, of several keys together.

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
