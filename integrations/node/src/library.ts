// The client library: ioredis or node-redis, whichever is installed.

import { type Address, addressOf, type Host } from "./address.js";
import { DehydratorError } from "./errors.js";
import { type Ioredis, openByIoredis, openLikeIoredis, openNodeLikeIoredis } from "./ioredis.js";
import { kindOf, type NodeRedis, openByNodeRedis, openLikeNodeRedis, openNodeLikeNodeRedis } from "./node_redis.js";
import { type Opened, Wire } from "./wire.js";

/**
 * A client of ioredis (`Redis`, `Cluster`) or of node-redis (`createClient`, `createCluster`, `createSentinel`), or the
 * `MemoryServer` of `dehydrator-queue/testing`.
 */
export type Client = Ioredis | NodeRedis | Maker;

/** The library that connects to a URL; by default the first that is installed. */
export type LibraryName = "ioredis" | "redis";

/** Makes connections to one server. */
export interface Maker {
  /** Whether keys of one command must share a slot. */
  readonly cluster: boolean;
  /** Whether it has no scripts, and so no queues of several keys. */
  readonly isMemory?: boolean;
  open(): Promise<Opened>;
}

/** Makes connections to a cluster, and to each of its nodes. */
export interface ClusterMaker extends Maker {
  openNode(node: Host): Promise<Opened>;
}

export function makerOf(server: string | Client, library?: LibraryName): Maker | ClusterMaker {
  if (typeof server === "string") {
    const address = addressOf(server);
    const open = () => openBy(address, library);
    if (address.kind !== "cluster") return { cluster: false, open };
    return { cluster: true, open, openNode: (node) => openBy(nodeOf(address, node), library) };
  }
  if ("open" in server && "cluster" in server) return server;
  if ("callBuffer" in server) {
    const open = () => openLikeIoredis(server);
    if (!server.isCluster) return { cluster: false, open };
    return { cluster: true, open, openNode: (node) => openNodeLikeIoredis(server, node) };
  }
  if (typeof server?.sendCommand === "function") {
    if (typeof server.duplicate !== "function") {
      throw new DehydratorError(
        "createSentinel of node-redis 5 cannot be asked for its like: give a URL, redis+sentinel://",
      );
    }
    const open = () => openLikeNodeRedis(server);
    if (kindOf(server) !== "cluster") return { cluster: false, open };
    return { cluster: true, open, openNode: (node) => openNodeLikeNodeRedis(server, node) };
  }
  throw new TypeError("a queue needs a URL, or a client of ioredis or node-redis");
}

/** Returns the name of something beside a key, on a cluster: it has a hash tag, as the server finds one. */
export function inSlot(key: string): string {
  return /^[^{]*\{[^}]+\}/.test(key) ? key : `{${key}}`;
}

/** Returns the address of a node of a cluster. */
function nodeOf({ url: cluster }: Address, { host, port }: Host): Address {
  const url = new URL(cluster);
  url.host = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  return { kind: "server", url, text: url.href, hosts: [], name: "", db: 0 };
}

async function openBy(address: Address, library: LibraryName | undefined): Promise<Opened> {
  try {
    if (library !== "redis") return await openByIoredis(address);
  } catch (error) {
    if (library === "ioredis" || !isMissing(error, "ioredis")) throw missing(error);
  }
  try {
    return await openByNodeRedis(address);
  } catch (error) {
    throw missing(error);
  }
}

function isMissing(error: unknown, name: LibraryName): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  return /^(ERR_)?MODULE_NOT_FOUND$/.test(code ?? "") && message.includes(`'${name}'`);
}

function missing(error: unknown): unknown {
  if (!isMissing(error, "ioredis") && !isMissing(error, "redis")) return error;
  return new DehydratorError(
    "dehydrator-queue needs ioredis or node-redis: `npm install ioredis`, or `npm install redis`",
    {
      cause: error,
    },
  );
}

export function wireOf(maker: Maker, timeout: number): Wire {
  return new Wire(() => maker.open(), timeout);
}
