// The client library: ioredis or node-redis, whichever is installed.

import { type Address, addressOf } from "./address.js";
import { DehydratorError } from "./errors.js";
import { type Ioredis, openByIoredis, openLikeIoredis } from "./ioredis.js";
import { kindOf, type NodeRedis, openByNodeRedis, openLikeNodeRedis } from "./node_redis.js";
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
  open(): Promise<Opened>;
}

export function makerOf(server: string | Client, library?: LibraryName): Maker {
  if (typeof server === "string") {
    const address = addressOf(server);
    return { cluster: address.kind === "cluster", open: () => openBy(address, library) };
  }
  if ("open" in server && "cluster" in server) return server;
  if ("callBuffer" in server) return { cluster: server.isCluster, open: () => openLikeIoredis(server) };
  if (typeof server?.sendCommand === "function") {
    if (typeof server.duplicate !== "function") {
      throw new DehydratorError(
        "createSentinel of node-redis 5 cannot be asked for its like: give a URL, redis+sentinel://",
      );
    }
    return { cluster: kindOf(server) === "cluster", open: () => openLikeNodeRedis(server) };
  }
  throw new TypeError("a queue needs a URL, or a client of ioredis or node-redis");
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
