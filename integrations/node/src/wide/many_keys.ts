// The keys of a queue of several, which can be on several nodes of a cluster.

import { DehydratorError } from "../errors.js";
import type { Id } from "../job.js";
import { type Answer, type Keys, type Make, type Part, REPLY } from "../keys.js";
import { type ClusterMaker, type Maker, wireOf } from "../library.js";
import { bytes, text } from "../reply.js";
import { type Patience, Server } from "../server.js";
import { ask, BATCH, entries, type Question, type Revival, type Revived, type Verbs } from "../verbs.js";
import { isReply, Wire } from "../wire.js";
import { Directory, home } from "./directory.js";
import { ROUTED, ROUTED_SHA, type When } from "./script.js";
import { Slots } from "./slots.js";

/** How many keys: a number, or one for each primary. */
export type KeyCount = number | "auto";

/** How often a command is sent with a newer directory, before there is an error. */
const ATTEMPTS = 100;

/** The longest pause before a command is resent, in milliseconds: a node that is down is soon replaced. */
const LONGEST_PAUSE = 200;

/** Finds the keys of the queue, in its directory, and changes them. */
export class ManyKeys<T> implements Keys<T> {
  readonly #slots: Slots | undefined;
  readonly #parts = new Map<string, Part<T>>();
  readonly #key: string;
  /** The server of the directory, and of all keys if it is not a cluster. */
  readonly #server: Server;
  #directory: Directory | undefined;
  #reading: Promise<Directory> | undefined;

  constructor(
    private readonly maker: Maker | ClusterMaker,
    private readonly name: string,
    private readonly wanted: KeyCount,
    private readonly verbsOf: (key: string) => Verbs<T>,
    private readonly patience: number,
  ) {
    if (/[{}]/.test(name)) throw new TypeError(`with \`keys\`, the name of a queue has no braces: ${name}`);
    this.#key = `${name}:keys`;
    if (maker.cluster && "openNode" in maker) this.#slots = new Slots(maker);
    this.#server = this.#serverOf(this.#key, REPLY, patience);
  }

  async byId<A>(id: Id, make: Make<T, A>): Promise<A> {
    return (await this.#byId(id, make)).answer;
  }

  async byIds<A>(
    ids: readonly Id[],
    make: (verbs: Verbs<T>, places: readonly number[]) => Question<A>,
  ): Promise<Answer<A>[]> {
    const found: Answer<A>[] = [];
    let left = ids.map((_, place) => place);
    for (let tries = 0; left.length > 0; tries += 1) {
      if (tries === ATTEMPTS) throw this.#outdated();
      const directory = await this.#open();
      const { together, alone } = directory.split(ids, left, BATCH);
      const stale: number[] = [];
      const some = together.map(async ({ key, places }) => {
        const reply = await this.#at(directory, key, "always", "", (verbs) => make(verbs, places));
        if (reply === "stale" || reply === "elsewhere") stale.push(...places);
        else found.push({ places, answer: reply.answer });
      });
      const others = alone.map(async (place) => {
        const { answer } = await this.#byId(ids[place]!, (verbs) => make(verbs, [place]));
        found.push({ places: [place], answer });
      });
      await Promise.all([...some, ...others]);
      if (stale.length > 0) await this.#readTogether();
      left = stale;
    }
    return found;
  }

  async each<A>(make: Make<T, A>, how?: Patience): Promise<A[]> {
    const parts = await this.parts(how);
    return Promise.all(parts.map(({ server, verbs }) => server.ask(make(verbs), how)));
  }

  /** Reads the directory again, and returns the keys of all lists. */
  async parts(how?: Patience): Promise<readonly Part<T>[]> {
    return (await this.#read(how)).keys.map((key) => this.#part(key));
  }

  /** One that goes to another key leaves its stream after it has arrived. */
  async revive({ server, verbs }: Part<T>, { named, element, count, from }: Revival): Promise<Revived> {
    const start = from == null ? "-" : `(${from}`;
    const asked = named?.map((entry) => entries(verbs.dead, entry, 1, entry)) ?? [entries(verbs.dead, start, count)];
    const letters = (await Promise.all(asked.map((one) => server.ask(one)))).flat();
    let total = 0;
    for (const [entry, told] of letters) {
      const mine = { named: [entry], element, count: 1 };
      const { revived } = await this.byId(bytes(told.get("id")), (home) =>
        home.key === verbs.key ? home.revive(mine) : home.putBack(told, element),
      );
      if (revived > 0) await server.ask(ask(["XDEL", verbs.dead, entry], Number));
      total += revived;
    }
    return { revived: total, next: letters.length < count ? null : letters.at(-1)![0] };
  }

  /** The first key, which the queue keeps however many it has: schedules never move. */
  get home(): Part<T> {
    return this.#part(`{${this.name}:0}`);
  }

  async checkAlone(): Promise<void> {}

  /** See `Queue.setKeys`. */
  async setKeys(count: KeyCount): Promise<string[]> {
    const directory = await this.#read();
    const names = await this.#names(directory.last, checkedKeys(count));
    const used = await Promise.all(
      [...new Set([...directory.keys, ...names])].map((key) =>
        this.#part(key).server.ask(ask(["GET", `${key}:generation`], (reply) => Number(reply ?? 0))),
      ),
    );
    const isNew = names.join() !== directory.last.join();
    const highest = Math.max(...used);
    if (isNew || highest > directory.generation) {
      await this.#change(directory, isNew ? [...directory.lists, names] : directory.lists, highest);
    }
    return names;
  }

  async #change(directory: Directory, lists: readonly (readonly string[])[], used = 0): Promise<void> {
    const written = await this.#server.ask(directory.write(lists, used));
    if (!(await this.#read()).is(written)) throw new DehydratorError(`another client changes ${this.#key}: try again`);
  }

  /** See `Queue.forgetKeys`. */
  async forgetKeys(): Promise<number> {
    const directory = await this.#read();
    if (directory.lists.length < 2) return 0;
    let left = 0;
    for (const { server, verbs } of directory.keys.map((key) => this.#part(key))) {
      // From now on, clients with a former list are refused here.
      const said = await this.#at(directory, verbs.key, "always", "", () => verbs.size());
      if (said === "stale") throw new DehydratorError(`another client changes ${this.#key}: try again`);
      for (let cursor: string | null = "0"; cursor !== null; ) {
        const { next, ids }: { next: string | null; ids: Buffer[] } = await server.ask(verbs.scan(cursor));
        left += ids.filter((id) => home(id, directory.last) !== verbs.key).length;
        cursor = next;
      }
      if (!directory.last.includes(verbs.key)) left += await server.ask(ask(["XLEN", verbs.dead], Number));
    }
    if (left > 0) return left;
    await this.#change(directory, [directory.last]);
    return 0;
  }

  close(): void {
    this.#server.close();
    for (const { server } of this.#parts.values()) server.close();
  }

  /** Runs a command for an id: in a former key if the id is there, otherwise in the key where it belongs. */
  async #byId<A>(id: Id, make: Make<T, A>): Promise<{ answer: A }> {
    for (let tries = 0; tries < ATTEMPTS; tries += 1) {
      const directory = await this.#open();
      const keys = directory.places(id);
      for (const [n, key] of keys.entries()) {
        const isLast = n === keys.length - 1;
        const said = await this.#at(directory, key, isLast ? "always" : "if there", id, make);
        if (said === "elsewhere") continue;
        if (said !== "stale") return said;
        await this.#readTogether();
        break;
      }
    }
    throw this.#outdated();
  }

  /** Runs a command on a key, unless this directory is outdated. */
  async #at<A>(
    { generation }: Directory,
    key: string,
    when: When,
    id: Id,
    make: Make<T, A>,
  ): Promise<{ answer: A } | "stale" | "elsewhere"> {
    const { server, verbs } = this.#part(key);
    const { words, read: answerOf } = make(verbs);
    const told = [2, key, `${key}:generation`, generation, when, id, words[0]!, ...words.slice(2)];
    const read = (reply: unknown) => {
      const [said, answer] = reply as [unknown, unknown];
      const how = text(said);
      return how === "stale" || how === "elsewhere" ? how : { answer: answerOf(answer ?? null) };
    };
    try {
      return await server.ask(ask(["EVALSHA", ROUTED_SHA, ...told], read));
    } catch (error) {
      if (!isReply(error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return server.ask(ask(["EVAL", ROUTED, ...told], read));
    }
  }

  #outdated(): Error {
    // A failover lost its last change.
    return new DehydratorError(`${this.#key} is older than what clients used: call setKeys again`);
  }

  /** Returns what is known. The first client of the queue writes the directory; the others take what is there. */
  async #open(): Promise<Directory> {
    return this.#directory ?? this.#readTogether();
  }

  /** Reads the directory once for all commands that wait for it. */
  #readTogether(): Promise<Directory> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /**
   * A directory that is older than what was known has been lost, as in a failover. Then its lists and those come
   * together.
   */
  async #read(how?: Patience): Promise<Directory> {
    for (;;) {
      const found = await this.#server.ask(Directory.read(this.#key), how);
      const mine = this.#directory;
      if (mine !== undefined && found.generation < mine.generation) {
        await this.#server.ask(found.write(found.beside(mine), mine.generation));
      } else if (found.lists.length > 0) {
        this.#directory = found;
        return found;
      } else {
        await this.#server.ask(found.write([await this.#names([], this.wanted)]));
      }
    }
  }

  /** Returns the names of so many keys: those before, and new ones that belong to primaries with too few. */
  async #names(before: readonly string[], keys: KeyCount): Promise<string[]> {
    const nodes = this.#slots === undefined ? 1 : (await this.#slots.primaries([])).count;
    const count = keys === "auto" ? nodes : keys;
    const names = before.slice(0, count);
    const most = Math.ceil(count / nodes);
    const nodeOf = async (all: string[]) => (this.#slots === undefined ? [] : (await this.#slots.primaries(all)).of);
    for (let number = 0; names.length < count; number += 1) {
      const name = `{${this.name}:${number}}`;
      if (names.includes(name)) continue;
      const [there, ...others] = await nodeOf([name, ...names]);
      if (there === undefined || others.filter((other) => other === there).length < most) names.push(name);
    }
    return names;
  }

  #part(key: string): Part<T> {
    const known = this.#parts.get(key);
    if (known !== undefined) return known;
    const server = this.#slots === undefined ? this.#server : this.#serverOf(key, REPLY, this.patience);
    const another = (timeout: number) => this.#serverOf(key, timeout, Number.POSITIVE_INFINITY);
    const part: Part<T> = { queue: this.name, verbs: this.verbsOf(key), server, maker: this.maker, another };
    this.#parts.set(key, part);
    return part;
  }

  #serverOf(key: string, timeout: number, patience: number): Server {
    const slots = this.#slots;
    const wire = slots === undefined ? wireOf(this.maker, timeout) : new Wire(() => slots.open(key), timeout);
    return new Server(wire, patience, LONGEST_PAUSE);
  }
}

/** Returns a number of keys; refuses what is none. */
export function checkedKeys(keys: KeyCount): KeyCount {
  if (keys === "auto" || (Number.isInteger(keys) && keys >= 1)) return keys;
  throw new RangeError(`\`keys\` is a number of keys from 1 on, or "auto", and not ${keys}`);
}

/** Orders entries of streams by their times. */
export function byEntry(one: { entry: string }, other: { entry: string }): number {
  const [ms = 0, n = 0] = one.entry.split("-").map(Number);
  const [otherMs = 0, otherN = 0] = other.entry.split("-").map(Number);
  return ms - otherMs || n - otherN;
}
