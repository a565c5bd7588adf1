// The nodes of a cluster, and which of them has a key.

import type { Host } from "../address.js";
import type { ClusterMaker } from "../library.js";
import { text } from "../reply.js";
import { inTime, type Opened } from "../wire.js";

/** For how many milliseconds a node is asked before the next one is. */
const PATIENCE = 1000;

interface Range {
  readonly first: number;
  readonly last: number;
  readonly node: Host;
}

interface Table {
  readonly ranges: readonly Range[];
  /** Of the keys that were asked for. */
  readonly slots: readonly number[];
}

/** Finds the node of a key, and connects to it. Each look-up asks the cluster: it follows an error. */
export class Slots {
  /** Where to ask: the nodes that the cluster has named, the one that has replied first. */
  #nodes: Host[] = [];
  readonly #slotOf = new Map<string, number>();
  /** What a node said of a key, in an error. */
  readonly #moved = new Map<string, Host>();

  constructor(private readonly maker: ClusterMaker) {}

  /** Opens a connection to the node of a key. */
  async open(key: string): Promise<Opened> {
    const told = this.#moved.get(key);
    this.#moved.delete(key);
    const opened = await this.maker.openNode(told ?? (await this.nodeOf(key)));
    let aside: { host: string; opened: Promise<Opened> } | undefined;
    return {
      get alive() {
        return opened.alive;
      },
      send: async (words) => {
        // What was written aside has to be replicated there.
        if (words[0] === "WAIT" && aside !== undefined) {
          const others = await aside.opened;
          return Math.min(...(await Promise.all([opened.send(words), others.send(words)])).map(Number));
        }
        try {
          return await opened.send(words);
        } catch (error) {
          const [, kind, host, port] = /^-?(MOVED|ASK) \d+ (.*):(\d+)/.exec(String((error as Error).message)) ?? [];
          if (kind === undefined || host === undefined) throw error;
          const node = { host, port: Number(port) };
          if (kind === "MOVED") {
            this.#moved.set(key, node);
            throw error;
          }
          // The slot is on its way, and the key is there already.
          if (aside?.host !== `${host}:${port}`) {
            aside?.opened.then((other) => other.close()).catch(() => {});
            aside = { host: `${host}:${port}`, opened: this.maker.openNode(node) };
          }
          const other = await aside.opened;
          const [, reply] = await Promise.all([other.send(["ASKING"]), other.send(words)]);
          return reply;
        }
      },
      close: () => {
        opened.close();
        aside?.opened.then((other) => other.close()).catch(() => {});
      },
    };
  }

  async nodeOf(key: string): Promise<Host> {
    const { ranges, slots } = await this.#read([key]);
    return nodeIn(ranges, slots[0]!);
  }

  /** Returns the primaries, and for each key which of them has it. */
  async primaries(keys: readonly string[]): Promise<{ count: number; of: readonly string[] }> {
    const { ranges, slots } = await this.#read(keys);
    const of = slots.map((slot) => nameOf(nodeIn(ranges, slot)));
    return { count: new Set(ranges.map(({ node }) => nameOf(node))).size, of };
  }

  async #read(keys: readonly string[]): Promise<Table> {
    for (const node of [...this.#nodes]) {
      try {
        const table = await this.#ask(this.maker.openNode(node), keys, node.host);
        this.#nodes = [node, ...this.#nodes.filter((other) => nameOf(other) !== nameOf(node))];
        return table;
      } catch {
        // The next one is asked.
      }
    }
    return this.#ask(this.maker.open(), keys, "");
  }

  async #ask(opening: Promise<Opened>, keys: readonly string[], asked: string): Promise<Table> {
    try {
      return await inTime(this.#table(opening, keys, asked), PATIENCE);
    } finally {
      opening.then((opened) => opened.close()).catch(() => {});
    }
  }

  async #table(opening: Promise<Opened>, keys: readonly string[], asked: string): Promise<Table> {
    const opened = await opening;
    const rows = (await opened.send(["CLUSTER", "SLOTS"])) as [number, number, ...[unknown, number][]][];
    for (const key of keys) {
      if (this.#slotOf.has(key)) continue;
      this.#slotOf.set(key, Number(await opened.send(["CLUSTER", "KEYSLOT", key])));
    }
    const hostOf = ([host, port]: [unknown, number]) => ({ host: text(host ?? "") || asked, port: Number(port) });
    const found = new Map<string, Host>();
    const ranges = rows.map(([first, last, ...nodes]) => {
      for (const node of nodes.map(hostOf)) found.set(nameOf(node), node);
      return { first, last, node: hostOf(nodes[0]!) };
    });
    this.#nodes = [...found.values()];
    return { ranges, slots: keys.map((key) => this.#slotOf.get(key)!) };
  }
}

function nodeIn(ranges: readonly Range[], slot: number): Host {
  const found = ranges.find(({ first, last }) => first <= slot && slot <= last);
  // Passes, as CLUSTERDOWN does.
  if (found === undefined) throw new Error(`no node has the slot ${slot}`);
  return found.node;
}

function nameOf({ host, port }: Host): string {
  return `${host}:${port}`;
}
