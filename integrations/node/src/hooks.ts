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

  /** Hears of what was thrown beside the work, by a server that refused or by a hook, and what failed: a renewal, say. */
  crashed(error: unknown, what: string): void {
    console.error(`dehydrator: ${what} failed:`, error);
  }
}

/** Calls a hook, and does not wait for what it returns. */
export type Tell = <Name extends keyof Hooks>(name: Name, ...told: Parameters<Hooks[Name]>) => void;

/** Calls hooks, of which some are overridden. What one throws goes to `crashed`, and no further: a worker outlives it. */
export function tellerOf(some: Partial<Hooks> = {}): Tell {
  const own = new Hooks();
  const hooks = some instanceof Hooks ? some : Object.assign(new Hooks(), some);
  const tell: Tell = async (name, ...told) => {
    try {
      // A hook may be asynchronous: what it rejects with would end the process.
      await Reflect.apply(hooks[name], hooks, told);
    } catch (error) {
      if (name !== "crashed") return tell("crashed", error, `the hook ${name}`);
      own.crashed(...(told as Parameters<Hooks["crashed"]>));
      own.crashed(error, "the hook crashed");
    }
  };
  return tell;
}
