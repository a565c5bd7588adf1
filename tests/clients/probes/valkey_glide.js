// valkey-glide for Node.

import { GlideClient, GlideClusterClient, Logger, ProtocolVersion } from "@valkey/valkey-glide";
import { fromCommandLine, serve, versionOf } from "./common.js";

const settings = fromCommandLine(process.argv.slice(2));
const options = { addresses: [{ host: "127.0.0.1", port: settings.port }] };
if (settings.timeout) options.requestTimeout = settings.timeout * 1000;
if (settings.protocol === "2") options.protocol = ProtocolVersion.RESP2;
if (settings.replicas) options.readFrom = "preferReplica";

Logger.init("off");
const kind = settings.mode === "cluster" ? GlideClusterClient : GlideClient;
const client = await kind.createClient(options);
await serve(versionOf("@valkey/valkey-glide"), settings.parallel, (words) => client.customCommand(words));
