// Handles SIGTERM and SIGINT.

const NAMES = ["SIGTERM", "SIGINT"] as const;

/** Signals within this many milliseconds are one: npm and a supervisor send another. */
const TOGETHER = 300;

const listeners = new Set<(count: number) => void>();
let [count, last] = [0, Number.NEGATIVE_INFINITY];

const hear = (name: NodeJS.Signals) => {
  const now = performance.now();
  if (now - last < TOGETHER) return;
  last = now;
  count += 1;
  if (count > 2) {
    for (const one of NAMES) process.off(one, hear);
    process.kill(process.pid, name);
    return;
  }
  for (const listener of listeners) listener(count);
};

/**
 * Calls `listener` at the first signal and at the second, until the returned function is called; the third ends the
 * process. All share one handler: Node warns at eleven.
 */
export function onSignal(listener: (count: number) => void): () => void {
  if (listeners.size === 0) {
    [count, last] = [0, Number.NEGATIVE_INFINITY];
    for (const name of NAMES) process.on(name, hear);
  }
  listeners.add(listener);
  return () => {
    if (listeners.delete(listener) && listeners.size === 0) for (const name of NAMES) process.off(name, hear);
  };
}
