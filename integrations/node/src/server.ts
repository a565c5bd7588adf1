// The server, asked until it answers.

import { setTimeout as sleep } from "node:timers/promises";
import { ModuleMissingError, ModuleTooOldError } from "./errors.js";
import { bare, type Question } from "./verbs.js";
import { isReply, passes, type Wire } from "./wire.js";

/** How long to wait before a command is sent again, in milliseconds: the first time, and at most. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2000;

/** Newer than others: a server that knows it knows all that this package needs. */
const NEWEST = "DEHYDRATOR.REJECT";

export interface Patience {
  /** For how many milliseconds it is asked again. */
  patience?: number;
  /** For how many milliseconds a reply is waited for, before it is asked for by another connection. */
  reply?: number | undefined;
  giveUp?(): boolean;
  /** Hears of each error that is not the last. */
  tell?(error: unknown): void;
}

/** Sends each command again until there is a reply, or until patience ends. All commands here bear that. */
export class Server {
  constructor(
    private readonly wire: Wire,
    private readonly patience: number,
  ) {}

  async ask<T>(
    question: Question<T>,
    { patience = this.patience, reply: wait, giveUp, tell }: Patience = {},
  ): Promise<T> {
    const end = performance.now() + patience;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      let reply: unknown;
      try {
        reply = await this.wire.send(question.words, wait);
      } catch (error) {
        if (!passes(error) || giveUp?.() || performance.now() + pause > end) {
          throw clearer(error, String(question.words[0]));
        }
        tell?.(error);
        await sleep(pause);
        continue;
      }
      return question.read(reply);
    }
  }

  /** Throws what is wrong if the module is not there, or too old. */
  async check(how: Patience = {}): Promise<void> {
    for (const command of ["DEHYDRATOR.POLL", NEWEST]) {
      try {
        await this.ask(bare(command), how);
      } catch (error) {
        if (!knows(error)) throw error;
      }
    }
  }

  close(): void {
    this.wire.close();
  }
}

/** Returns a clearer error, if the server does not know the command. */
function clearer(error: unknown, command: string): unknown {
  if (!isReply(error) || knows(error)) return error;
  const old = command === "DEHYDRATOR.RELEASE" || command === NEWEST;
  return old ? new ModuleTooOldError(command, { cause: error }) : new ModuleMissingError({ cause: error });
}

/** Returns whether a command without its arguments was refused for that, and so is known. */
function knows(error: unknown): boolean {
  return isReply(error) && !error.message.toLowerCase().includes("unknown command 'dehydrator");
}
