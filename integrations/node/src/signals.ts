// What SIGTERM and SIGINT end.

const NAMES = ["SIGTERM", "SIGINT"] as const;

const listeners = new Set<() => void>();
const callAll = () => {
  for (const listener of listeners) listener();
};

/** Calls `listener` at each signal, until what is returned is called. All share one listener: Node warns of the eleventh. */
export function onSignal(listener: () => void): () => void {
  if (listeners.size === 0) for (const name of NAMES) process.on(name, callAll);
  listeners.add(listener);
  return () => {
    if (listeners.delete(listener) && listeners.size === 0) for (const name of NAMES) process.off(name, callAll);
  };
}
