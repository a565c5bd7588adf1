// The events of a worker: written to the console, and passed to overridden hooks.

import { debuglog } from "node:util";
import type { Delivery, Job } from "./job.js";

const debug = debuglog("dehydrator");

/** Writes problems to the console, and the rest if NODE_DEBUG=dehydrator. Override what you need. */
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

  /** Called for jobs that became dead letters here, but not for those that the server moved itself. */
  buried(delivery: Delivery, reason: string): void {
    console.error(`dehydrator: ${delivery.key}: ${delivery.id} is a dead letter: ${reason}`);
  }

  /** Called for a job that was cancelled, or that another worker has by now. */
  lost(job: Job): void {
    console.warn(`dehydrator: ${job.queue}: ${job.id} was lost: cancelled, or its lease ran out`);
  }

  /** Called each time before a command is resent. */
  interrupted(error: unknown): void {
    console.warn(`dehydrator: the server does not answer, asking again: ${error}`);
  }

  /** Called for errors outside of the work: by the server or by a hook; with what failed, for example a renewal. */
  crashed(error: unknown, what: string): void {
    console.error(`dehydrator: ${what} failed:`, error);
  }
}

/** Calls a hook, without waiting for its result. */
export type Tell = <Name extends keyof Hooks>(name: Name, ...told: Parameters<Hooks[Name]>) => void;

/** Calls hooks, some of which are overridden. If one throws, `crashed` is called, and the worker continues. */
export function tellerOf(some: Partial<Hooks> = {}): Tell {
  const own = new Hooks();
  const hooks = some instanceof Hooks ? some : Object.assign(new Hooks(), some);
  const tell: Tell = async (name, ...told) => {
    try {
      // A hook can be asynchronous: its rejection would end the process.
      await Reflect.apply(hooks[name], hooks, told);
    } catch (error) {
      if (name !== "crashed") return tell("crashed", error, `the hook ${name}`);
      own.crashed(...(told as Parameters<Hooks["crashed"]>));
      own.crashed(error, "the hook crashed");
    }
  };
  return tell;
}
