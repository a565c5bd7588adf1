// Hears from the server, by Pub/Sub, that a job of a worker was cancelled: else the next renewal tells.

import { setTimeout as sleep } from "node:timers/promises";
import { type ClusterMaker, inSlot, type Maker } from "./library.js";
import { Slots } from "./wide/slots.js";
import { type Opened, passes } from "./wire.js";

/** How often a connection that has broken is noticed, and opened again, in milliseconds. */
const INTERVAL = 1000;

/** Returns the channel on which the server tells of a key in a database. */
export function channelOf(key: string, cluster: boolean, db: number): string {
  return `__cancelled@${db}__:${cluster ? inSlot(key) : key}`;
}

/**
 * Calls `hear` with the key and the id of each job that is cancelled, until the signal. The keys are in one slot. A
 * user who may not subscribe does without.
 */
export async function listen(
  maker: Maker | ClusterMaker,
  keys: readonly string[],
  hear: (key: string, id: Buffer) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    let opened: Opened | undefined;
    try {
      const isCluster = maker.cluster && "openNode" in maker;
      opened = await (isCluster ? maker.openNode(await new Slots(maker).nodeOf(keys[0]!)) : maker.open());
      if (opened.subscribe === undefined) return;
      for (const key of keys) {
        if (signal.aborted) break;
        await opened.subscribe(
          (db) => channelOf(key, maker.cluster, db),
          maker.cluster,
          (id) => hear(key, id),
        );
      }
      while (opened.alive && !signal.aborted) await pause(signal);
    } catch (error) {
      // It has no right to (NOPERM), or the library is too old.
      if (!passes(error)) return;
      await pause(signal);
    } finally {
      opened?.close();
    }
  }
}

function pause(signal: AbortSignal): Promise<unknown> {
  return sleep(INTERVAL, undefined, { signal, ref: false }).catch(() => {});
}
