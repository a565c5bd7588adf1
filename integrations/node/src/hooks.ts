// What a worker tells of what it does: to the console, and to whoever overrides these.

import { debuglog } from "node:util";
import type { Delivery, Job } from "./job.js";

const debug = debuglog("dehydrator");

/** Writes what went wrong to the console, and the rest if NODE_DEBUG=dehydrator. Override what you need. */
export class Hooks {
  started(job: Job): void {
    debug("%s: %s begins, attempt %d", job.queue, job.id, job.attempt);
  }

  succeeded(job: Job, ms: number): void {
    debug("%s: %s is done in %d ms", job.queue, job.id, ms);
  }

  retried(job: Job, _ms: number, error: unknown, delay: number): void {
    const again = `attempt ${job.attempt}, again in ${Math.round(delay)} ms`;
    console.warn(`dehydrator: ${job.queue}: ${job.id} failed, ${again}: ${error}`);
  }

  /** Hears of what became a dead letter here; what the server itself moves there is not heard of. */
  buried(delivery: Delivery, reason: string): void {
    console.error(`dehydrator: ${delivery.key}: ${delivery.id} is a dead letter: ${reason}`);
  }

  /** Hears of a job that was cancelled, or that another worker has by now. */
  lost(job: Job): void {
    console.warn(`dehydrator: ${job.queue}: ${job.id} was lost: cancelled, or its lease ran out`);
  }

  /** Hears each time before a command is sent again. */
  interrupted(error: unknown): void {
    console.warn(`dehydrator: the server does not answer, asking again: ${error}`);
  }

  /** Hears of what was thrown beside the work: by a hook, or by a server that refused. */
  crashed(error: unknown): void {
    console.error("dehydrator: while a job was ended:", error);
  }
}

/** Returns hooks of which some are overridden. */
export function hooksOf(some: Partial<Hooks> | undefined): Hooks {
  return some instanceof Hooks ? some : Object.assign(new Hooks(), some);
}
