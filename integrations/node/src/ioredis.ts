// Connections with ioredis.

import type { Socket } from "node:net";
import type { Address, Host } from "./address.js";
import { bytesOf, isReply, type Opened } from "./wire.js";

/** The used part of `Redis` and `Cluster` of ioredis. */
export interface Ioredis {
  readonly isCluster: boolean;
  readonly status: string;
  readonly options: object;
  // biome-ignore lint/suspicious/noExplicitAny: the options of `Redis` and of `Cluster` differ
  duplicate(...options: any[]): Ioredis;
  connect(): Promise<void>;
  disconnect(): void;
  // biome-ignore lint/suspicious/noExplicitAny: its events have arguments of many types
  on(event: string, listener: (...told: any[]) => void): unknown;
  callBuffer(command: string, ...words: (string | Buffer)[]): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  ssubscribe(channel: string): Promise<unknown>;
  readonly stream?: Socket;
  nodes?(): Ioredis[];
}

interface Command {
  getKeys(): unknown;
}

/** Options of a connection that neither resends nor reconnects by itself, whatever the original client does. */
const OPTIONS = {
  autoPipelining: false,
  autoResendUnfulfilledCommands: false,
  commandTimeout: undefined,
  enableAutoPipelining: false,
  enableOfflineQueue: true,
  // It would hide what it waits for, for example that the server is loading.
  enableReadyCheck: false,
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  reconnectOnError: null,
  retryStrategy: null,
  sentinelRetryStrategy: null,
  stringNumbers: false,
};

const CLUSTER_OPTIONS = {
  clusterRetryStrategy: null,
  enableAutoPipelining: false,
  enableReadyCheck: false,
  lazyConnect: true,
  redisOptions: { autoResendUnfulfilledCommands: false, commandTimeout: undefined, stringNumbers: false },
};

/** Connects like a client of the user. */
export function openLikeIoredis(client: Ioredis): Promise<Opened> {
  return opened(client.isCluster ? client.duplicate([], CLUSTER_OPTIONS) : client.duplicate(OPTIONS));
}

/** Connects to a node of a cluster of the user. */
export async function openNodeLikeIoredis(client: Ioredis, { host, port }: Host): Promise<Opened> {
  const { Redis } = await import("ioredis");
  const { redisOptions, natMap } = client.options as ClusterOptions;
  const name = `${host}:${port}`;
  const node = (typeof natMap === "function" ? natMap(name) : natMap?.[name]) ?? { host, port };
  return opened(new Redis({ ...redisOptions, ...OPTIONS, ...node } as never) as never);
}

interface ClusterOptions {
  redisOptions?: object;
  natMap?: Record<string, Host> | ((name: string) => Host | null);
}

export async function openByIoredis(address: Address): Promise<Opened> {
  const { Cluster, Redis } = await import("ioredis");
  const { kind, url, hosts, name, db } = address;
  if (kind === "server") return opened(new Redis(address.text, OPTIONS as never) as never);
  const who = {
    ...(url.username === "" ? {} : { username: decodeURIComponent(url.username) }),
    ...(url.password === "" ? {} : { password: decodeURIComponent(url.password) }),
    ...(url.protocol === "rediss:" ? { tls: {} } : {}),
  };
  if (kind === "sentinel") {
    return opened(new Redis({ ...OPTIONS, ...who, sentinels: [...hosts], name, db } as never) as never);
  }
  const redisOptions = { ...CLUSTER_OPTIONS.redisOptions, ...who };
  return opened(new Cluster([...hosts], { ...CLUSTER_OPTIONS, redisOptions } as never) as never);
}

async function opened(client: Ioredis): Promise<Opened> {
  let cause: unknown;
  client.on("error", (error) => {
    cause = error;
  });
  try {
    // A cluster without an available node ends, and never resolves the promise.
    const ended = new Promise<never>((_, reject) => client.on("end", () => reject(new Error("the connection ended"))));
    ended.catch(() => {});
    await Promise.race([client.connect(), ended]);
    // If its own SELECT fails, as while a script runs, it continues in the first database.
    const { db } = client.options as { db?: number };
    if (db !== undefined && db !== 0) await Promise.race([client.callBuffer("SELECT", String(db)), ended]);
  } catch (error) {
    client.disconnect();
    throw cause ?? error;
  }
  const sender = keyed(client);
  const heard = new Map<string, (message: Buffer) => void>();
  return {
    get alive() {
      return client.status === "ready" || client.status === "connect";
    },
    get traffic() {
      const streams = (client.nodes?.() ?? [client]).map((node) => node.stream);
      return streams.reduce((sum, stream) => sum + (stream === undefined ? 0 : bytesOf(stream)), 0);
    },
    async send([command = "", ...words]) {
      try {
        return await sender.callBuffer(String(command), ...words);
      } catch (error) {
        // It reports used-up retries, but there are none: the reason of the broken connection is more useful.
        throw isReply(error) ? error : (cause ?? error);
      }
    },
    subscribe: (channelOf, sharded, hear) => {
      const channel = channelOf((client.options as { db?: number }).db ?? 0);
      if (heard.size === 0) {
        client.on(sharded ? "smessageBuffer" : "messageBuffer", (from: Buffer, message: Buffer) =>
          heard.get(from.toString())?.(message),
        );
      }
      heard.set(channel, hear);
      return sharded ? client.ssubscribe(channel) : client.subscribe(channel);
    },
    close: () => client.disconnect(),
  };
}

/**
 * Returns the client with support for the keys of our commands, and without a prefix for those of EVAL. A cluster
 * client asks a random node if it knows no key.
 */
function keyed(client: Ioredis): Ioredis {
  const send = (command: Command & { name: string; args: unknown[] }, ...rest: unknown[]) => {
    const at = { "DEHYDRATOR.MPOLL": 1, EVAL: 2, EVALSHA: 2 }[command.name.toUpperCase()] ?? 0;
    const key = command.args[at];
    if (key !== undefined) command.getKeys = () => [key];
    return (client as unknown as { sendCommand(...words: unknown[]): unknown }).sendCommand(command, ...rest);
  };
  return Object.create(client, { options: { value: {} }, sendCommand: { value: send } });
}
