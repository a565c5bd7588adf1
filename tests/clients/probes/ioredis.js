// ioredis and iovalkey. The first argument selects one, the second one the setting for the timeout.

import { fromCommandLine, serve, versionOf } from "./common.js";

const [name, timeout, ...words] = process.argv.slice(2);
const settings = fromCommandLine(words);
const { Redis, Cluster } = await import(name).then((it) => it.default ? { Redis: it.default, ...it } : it);

const options = {};
if (settings.timeout) options[timeout] = settings.timeout * 1000;
if (settings.resend === "off") Object.assign(options, { maxRetriesPerRequest: 0 });
if (settings.resend === "unfulfilled") Object.assign(options, { autoResendUnfulfilledCommands: false });
if (settings.blocking) options.blockingTimeout = settings.blocking * 1000;
if (settings.prefix) options.keyPrefix = settings.prefix;

let client;
if (settings.mode === "cluster") {
  const scaleReads = settings.replicas ? "slave" : "master";
  const retries = settings.resend === "off" ? { retryDelayOnFailover: 0 } : {};
  const nodes = [{ host: "127.0.0.1", port: settings.port }];
  client = new Cluster(nodes, { scaleReads, ...retries, redisOptions: options });
} else {
  client = new Redis({ host: "127.0.0.1", port: settings.port, ...options });
}
client.on("error", () => {});

// A command that declares its key.
class OfKey extends (await import(name)).Command {
  getKeys() {
    return [this.args[0]];
  }
}

const send = settings.route === "key"
  ? ([command, ...args]) => client.sendCommand(new OfKey(command, args, { replyEncoding: "utf8" }))
  : (words) => client.call(...words);
await serve(versionOf(name), settings.parallel, send);
