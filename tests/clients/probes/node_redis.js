// node-redis.

import { createClient, createCluster } from "redis";
import { fromCommandLine, serve, versionOf } from "./common.js";

const settings = fromCommandLine(process.argv.slice(2));
const socket = { host: "127.0.0.1", port: settings.port };
if (settings.timeout) socket.socketTimeout = settings.timeout * 1000;
const RESP = Number(settings.protocol ?? 2);

let send;
if (settings.mode === "cluster") {
  const url = `redis://127.0.0.1:${settings.port}`;
  const defaults = { socket: { ...(settings.timeout && { socketTimeout: settings.timeout * 1000 }) } };
  const client = createCluster({ rootNodes: [{ url }], defaults, useReplicas: Boolean(settings.replicas) });
  client.on("error", () => {});
  await client.connect();
  const isReadonly = Boolean(settings.replicas);
  send = (words) => client.sendCommand(words[1], isReadonly, words);
} else {
  const client = createClient({ socket, RESP });
  client.on("error", () => {});
  await client.connect();
  send = async (words) => client.sendCommand(settings.numbers ? words.map((it) => (isNaN(it) ? it : Number(it))) : words);
}
await serve(versionOf("redis"), settings.parallel, send);
