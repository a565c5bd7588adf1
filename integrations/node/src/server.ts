// The server, with retries.

import { setTimeout as sleep } from "node:timers/promises";
import { ModuleMissingError, ModuleTooOldError, typed } from "./errors.js";
import { text } from "./reply.js";
import { ask, type Question } from "./verbs.js";
import { isReply, passes, type Wire } from "./wire.js";

/** The delay before a command is resent, in milliseconds: the first time, and at most. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2000;

/** The newest command that this package needs: a server that knows it knows all of them. */
const NEWEST = "DEHYDRATOR.EVERY";

export interface Patience {
  /** For how many milliseconds to retry. */
  patience?: number;
  /** How many milliseconds to wait for a reply, before retrying on another connection. */
  reply?: number | undefined;
  giveUp?(): boolean;
  /** Called for each error except the last. */
  tell?(error: unknown): void;
}

/** Resends each command until there is a reply, or patience ends. All commands here are safe to repeat. */
export class Server {
  constructor(
    private readonly wire: Wire,
    private readonly patience: number,
    private readonly longestPause = LONGEST_PAUSE,
  ) {}

  async ask<T>(
    question: Question<T>,
    { patience = this.patience, reply: wait, giveUp, tell }: Patience = {},
  ): Promise<T> {
    const end = performance.now() + patience;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, this.longestPause)) {
      let reply: unknown;
      try {
        reply = await this.wire.send(question.words, wait, question.replicas);
      } catch (error) {
        if (!passes(error) || giveUp?.() || performance.now() + pause > end) {
          throw isReply(error) ? clearer(error) : error;
        }
        tell?.(error);
        // Clients that failed together do not come again together.
        await sleep(pause * (1 - Math.random() / 2));
        continue;
      }
      return question.read(reply);
    }
  }

  /** Throws an explanation if the module is missing or too old. */
  async check(how: Patience = {}): Promise<void> {
    try {
      // It is refused for want of arguments.
      await this.ask(ask([NEWEST], Boolean), how);
    } catch (error) {
      if (error instanceof ModuleMissingError && (await this.#knows("DEHYDRATOR.POLL", how))) {
        const version = await this.ask(ask(["INFO", "dehydrator"], text), how).catch(() => "");
        const [, number = ""] = /dehydrator_version:(\S+)/.exec(version) ?? [];
        throw new ModuleTooOldError(NEWEST, number, { cause: error });
      }
      if (!isReply(error)) throw error;
    }
  }

  async #knows(command: string, how: Patience): Promise<boolean> {
    return this.ask(ask([command], Boolean), how).then(Boolean, isReply);
  }

  close(): void {
    this.wire.close();
  }
}

/** Returns an error of this package for a reply, if there is one. */
export function clearer(error: Error): Error {
  return /unknown command [`'"]?dehydrator/i.test(error.message)
    ? new ModuleMissingError({ cause: error })
    : typed(error);
}
