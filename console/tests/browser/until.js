// Waits for conditions, not for time.

const PATIENCE_MS = 120_000;

/** Waits until `check` returns something true, and returns that. */
export async function until(check, what, patience = PATIENCE_MS) {
  const end = Date.now() + patience;
  let last;
  for (;;) {
    try {
      const found = await check();
      if (found) return found;
      last = found;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`waited in vain: ${what} (last: ${last})`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}
