// The contenders.

import { readFileSync } from "node:fs";

export interface Contender {
  /** In tables. */
  name: string;
  program: string;
  needsModule: boolean;
  versions: string;
}

function versionsOf(...packages: string[]): string {
  return packages
    .map((name) => {
      const path = new URL(`../../node_modules/${name}/package.json`, import.meta.url);
      return `${name} ${JSON.parse(readFileSync(path, "utf8")).version}`;
    })
    .join(", ");
}

function programOf(name: string): string {
  return new URL(`./jobs/${name}.js`, import.meta.url).pathname;
}

export const CONTENDERS: Record<string, Contender> = {
  bullmq: {
    name: "BullMQ",
    program: programOf("bullmq"),
    needsModule: false,
    versions: versionsOf("bullmq", "ioredis"),
  },
  "dehydrator-node": {
    name: "dehydrator (Node)",
    program: programOf("dehydrator"),
    needsModule: true,
    versions: versionsOf("ioredis"),
  },
};
