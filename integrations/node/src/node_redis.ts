// Connections with node-redis.

import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import type { Address, Host } from "./address.js";
import { text } from "./reply.js";
import { bytesOf, type Opened } from "./wire.js";

/** The used part of the clients from `createClient`, `createCluster` and `createSentinel` of node-redis. */
export interface NodeRedis {
  readonly isOpen: boolean;
  readonly isReady?: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: the options of the three differ
  duplicate(options?: any): NodeRedis;
  connect(): Promise<unknown>;
  destroy(): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: its events have arguments of many types
  on(event: string, listener: (...words: any[]) => void): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: the arguments of the three differ
  sendCommand(...words: any[]): Promise<any>;
  subscribe?(channel: string, hear: (message: Buffer) => void, bytes: true): Promise<unknown>;
  sSubscribe?(channel: string, hear: (message: Buffer) => void, bytes: true): Promise<unknown>;
}

/** The sockets of the connection that is being opened: the library does not show them. */
const opening = new AsyncLocalStorage<Set<Socket>>();
let hears = false;

/** Runs something that opens sockets, of the system's own kind and not of TLS, and adds them. */
function noting<A>(sockets: Set<Socket>, run: () => A): A {
  if (!hears) subscribe("net.client.socket", (told) => opening.getStore()?.add((told as { socket: Socket }).socket));
  hears = true;
  return opening.run(sockets, run);
}

/** Bulk strings are read as Buffers: ids and elements are any bytes. 36 is `RESP_TYPES.BLOB_STRING`. */
const BYTES = { typeMapping: { 36: Buffer } };
/** Otherwise `connect` would wait as long as there is no server. */
const ONCE = { reconnectStrategy: false } as const;

type Kind = Address["kind"];

/** Connects like a client of the user. */
export function openLikeNodeRedis(client: NodeRedis): Promise<Opened> {
  const kind = kindOf(client);
  const { options, _options } = client as { options?: Options; _options?: Options };
  if (kind === "cluster") {
    const defaults = _options?.defaults;
    return opened(kind, client.duplicate({ defaults: { ...defaults, socket: { ...defaults?.socket, ...ONCE } } }));
  }
  if (kind === "sentinel") return opened(kind, client.duplicate());
  return opened(kind, client.duplicate({ socket: { ...options?.socket, ...ONCE } }));
}

/** Connects to a node of a cluster of the user. */
export async function openNodeLikeNodeRedis(client: NodeRedis, { host, port }: Host): Promise<Opened> {
  const { createClient } = await import("redis");
  const { defaults, nodeAddressMap: map } = (client as { _options?: Options })._options ?? {};
  const name = `${host}:${port}`;
  const node = (typeof map === "function" ? map(name) : map?.[name]) ?? { host, port };
  const socket = { ...defaults?.socket, ...node, ...ONCE };
  return opened("server", createClient({ ...defaults, socket } as never) as NodeRedis);
}

interface Options {
  defaults?: Options;
  socket?: object;
  nodeAddressMap?: Record<string, Host> | ((name: string) => Host | undefined);
}

/** Tells the three kinds apart, whichever version of the library made them. */
export function kindOf(client: NodeRedis): Kind {
  if ("getMasterNode" in client) return "sentinel";
  return "slots" in client ? "cluster" : "server";
}

export async function openByNodeRedis(address: Address): Promise<Opened> {
  const { createClient, createCluster } = await import("redis");
  const { kind, url, hosts, db } = address;
  const who = {
    ...(url.username === "" ? {} : { username: decodeURIComponent(url.username) }),
    ...(url.password === "" ? {} : { password: decodeURIComponent(url.password) }),
  };
  const tls = url.protocol === "rediss:" ? { tls: true as const } : {};
  if (kind === "server") return opened(kind, createClient({ url: address.text, socket: { ...ONCE } }) as NodeRedis);
  if (kind === "cluster") {
    const rootNodes = hosts.map(({ host, port }) => ({ socket: { host, port, ...tls } }));
    const defaults = { ...who, socket: { ...ONCE, ...tls } };
    return opened(kind, createCluster({ rootNodes, defaults } as never) as unknown as NodeRedis);
  }
  // Its own client for Sentinel retries by itself. Here each connection is to one primary, and when it breaks,
  // Sentinel is asked for the next.
  const primary = await primaryOf(address, (socket) => createClient({ socket: { ...socket, ...ONCE } }) as NodeRedis);
  return opened("server", createClient({ ...who, database: db, socket: { ...primary, ...ONCE, ...tls } }) as NodeRedis);
}

async function primaryOf({ hosts, name }: Address, make: (socket: object) => NodeRedis): Promise<object> {
  let last: unknown;
  for (const { host, port } of hosts) {
    const sentinel = make({ host, port, connectTimeout: 1000 });
    sentinel.on("error", () => {});
    try {
      await sentinel.connect();
      const found = await sentinel.sendCommand(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]);
      if (found !== null) return { host: text(found[0]), port: Number(text(found[1])) };
      last = new Error(`Sentinel at ${host}:${port} knows no primary ${name}`);
    } catch (error) {
      last = error;
    } finally {
      if (sentinel.isOpen) sentinel.destroy();
    }
  }
  throw new Error(`no Sentinel names the primary ${name}: ${last}`, { cause: last });
}

async function opened(kind: Kind, client: NodeRedis): Promise<Opened> {
  client.on("error", () => {});
  // A cluster with some closed nodes throws, and Sentinel's client rejects.
  const close = () => {
    Promise.resolve()
      .then(() => client.isOpen && client.destroy())
      .catch(() => {});
  };
  const sockets = new Set<Socket>();
  try {
    await noting(sockets, () => client.connect());
  } catch (error) {
    close();
    throw error;
  }
  return {
    get alive() {
      return client.isOpen && client.isReady !== false;
    },
    get traffic() {
      return [...sockets].reduce((sum, socket) => sum + bytesOf(socket), 0);
    },
    send(words) {
      if (kind === "sentinel") return client.sendCommand(false, words, BYTES);
      if (kind === "server") return client.sendCommand(words, BYTES);
      return noting(sockets, () => client.sendCommand(keyOf(words), false, words, BYTES));
    },
    async subscribe(channelOf, sharded, hear) {
      const { database = 0 } = (client as { options?: { database?: number } }).options ?? {};
      return client[sharded ? "sSubscribe" : "subscribe"]!(channelOf(database), hear, true);
    },
    close,
  };
}

/** Selects the node; without a key, any. */
function keyOf(words: readonly (string | Buffer)[]): string | Buffer | undefined {
  return words[{ "DEHYDRATOR.MPOLL": 2, EVAL: 3, EVALSHA: 3 }[String(words[0])] ?? 1];
}
