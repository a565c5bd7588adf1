// The directory of a queue's keys.
//
// `NAME:keys` holds lists of key names. The last list tells where an id belongs, and the earlier ones where it may still
// be. No element is moved when the keys change: an id in a former key stays there until it is done.

import { createHash } from "node:crypto";
import type { Id } from "../job.js";
import { text } from "../reply.js";
import { ask, type Question } from "../verbs.js";
import { CHANGE } from "./script.js";

/** Ids of one key, by their places. */
interface Places {
  readonly key: string;
  readonly places: number[];
}

/** What a client knows of the directory. */
export class Directory {
  /** Of all lists, the last one first. */
  readonly keys: readonly string[];

  private constructor(
    readonly key: string,
    private readonly text: string,
    readonly generation: number,
    readonly lists: readonly (readonly string[])[],
  ) {
    this.keys = [...new Set([...lists].reverse().flat())];
  }

  static read(key: string): Question<Directory> {
    return ask(["GET", key], (reply) => {
      if (reply === null) return new Directory(key, "", 0, []);
      const { generation, lists } = JSON.parse(text(reply));
      return new Directory(key, text(reply), generation, lists);
    });
  }

  /** The keys of today. */
  get last(): readonly string[] {
    return this.lists.at(-1) ?? [];
  }

  /** Returns the keys in which an id can be: that where it belongs is the last. */
  places(id: Id): string[] {
    const homes = this.lists.map((names) => home(id, names));
    const last = homes.pop()!;
    return [...new Set(homes.filter((key) => key !== last)), last];
  }

  /** Splits some of the ids by their keys, into parts of limited size, and those that can be in several keys. */
  split(ids: readonly Id[], some: readonly number[], most: number): { together: Places[]; alone: number[] } {
    const together: Places[] = [];
    const open = new Map<string, number[]>();
    const alone: number[] = [];
    for (const place of some) {
      const [key = "", ...others] = this.places(ids[place]!);
      const places = open.get(key);
      if (others.length > 0) alone.push(place);
      else if (places !== undefined && places.length < most) places.push(place);
      else {
        const begun = [place];
        open.set(key, begun);
        together.push({ key, places: begun });
      }
    }
    return { together, alone };
  }

  /**
   * Replaces the lists, if nobody else did; returns the text, by which a reader can tell.
   *
   * `used`: the highest generation in use, if that is known: a failover can have lost it.
   */
  write(lists: readonly (readonly string[])[], used = 0): Question<string> {
    const after = JSON.stringify({ generation: Math.max(this.generation, used) + 1, lists });
    return ask(["EVAL", CHANGE, 1, this.key, this.text, after], () => after);
  }

  /** Returns the lists that the other one lacks, and then those of the other one. */
  beside({ lists }: Directory): readonly (readonly string[])[] {
    const known = new Set(lists.map((names) => names.join()));
    return [...this.lists.filter((names) => !known.has(names.join())), ...lists];
  }

  is(text: string): boolean {
    return this.text === text;
  }
}

/** The end of the id of an occurrence: its moment. */
const OCCURRENCE = /@\d{13,}$/;

/**
 * Returns the key of an id: that which gives the highest hash with it. Another key takes only its share of the ids.
 * Occurrences of schedules are in the first key.
 */
export function home(id: Id, names: readonly string[]): string {
  if (OCCURRENCE.test(typeof id === "string" ? id : Buffer.from(id).toString("latin1"))) return names[0]!;
  let [found, highest] = [names[0]!, ""];
  for (const name of names) {
    // Hexadecimal digits sort as the bytes do.
    const digest = createHash("md5").update(`${name} `).update(id).digest("hex");
    if (digest > highest) [found, highest] = [name, digest];
  }
  return found;
}
