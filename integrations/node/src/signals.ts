// Handles SIGTERM and SIGINT.

const NAMES = ["SIGTERM", "SIGINT"] as const;

const listeners = new Set<() => void>();
const callAll = () => {
  for (const listener of listeners) listener();
};

/** Calls `listener` at each signal, until the returned function is called. All share one: Node warns at eleven. */
export function onSignal(listener: () => void): () => void {
  if (listeners.size === 0) for (const name of NAMES) process.on(name, callAll);
  listeners.add(listener);
  return () => {
    if (listeners.delete(listener) && listeners.size === 0) for (const name of NAMES) process.off(name, callAll);
  };
}
