// Shared by all probes in Node: the settings from the command line, and a line printed for each line read.

import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { inspect } from "node:util";

export function fromCommandLine(words) {
  const [mode, port, ...settings] = words;
  return { mode, port: Number(port), ...Object.fromEntries(settings.map((it) => it.split("="))) };
}

export function versionOf(name) {
  return createRequire(import.meta.url)(`./node_modules/${name}/package.json`).version;
}

// With `parallel`, a command does not wait for the previous one.
export async function serve(version, parallel, send) {
  console.log("ready", version);
  for await (const line of createInterface({ input: process.stdin })) {
    const done = send(line.split(" ")).then(
      (reply) => console.log("ok", inspect(reply, { breakLength: Infinity, compact: true })),
      (error) => console.log("error", error.name, error.message.replaceAll("\n", " ")),
    );
    if (!parallel) await done;
  }
  process.exit();
}
