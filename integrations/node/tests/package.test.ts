import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { RealServer } from "./servers.js";

const HERE = new URL("../../", import.meta.url).pathname;

/** A project that has what is in the package, as who installs it has, and neither library. */
let project: string;

function run(program: string, ...words: string[]): string {
  return execFileSync(program, words, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

before(() => {
  project = mkdtempSync(join(tmpdir(), "dehydrator-"));
  process.on("exit", () => rmSync(project, { recursive: true, force: true }));
  // It was built before the tests: `prepare` would do so again, under them.
  const packed = run("npm", "pack", HERE, "--ignore-scripts", "--silent").trim();
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }));
  run("npm", "install", "--offline", "--omit=peer", "--no-audit", "--no-fund", "--silent", `./${packed}`);
});

test("its types need no library", () => {
  writeFileSync(
    join(project, "uses.ts"),
    `import { Queue, Worker } from "dehydrator";
     const jobs = new Queue<{ mail: string }>("redis://127.0.0.1", "jobs");
     const id: string | null = await jobs.put({ mail: "anna" }, { delay: 5 });
     // @ts-expect-error: it is no mail
     await jobs.put({ male: id });
     await new Worker(jobs, async (job) => job.payload.mail.trim(), { hooks: { lost: (job) => job.id.trim() } }).run();`,
  );
  const options = [
    "--strict",
    "--exactOptionalPropertyTypes",
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--noEmit",
  ];
  const types = ["--types", "node", "--typeRoots", join(HERE, "node_modules/@types")];
  run(process.execPath, join(HERE, "node_modules/typescript/bin/tsc"), ...options, ...types, "uses.ts");
});

test("without a library it says what to install, and with either it works", async (t) => {
  const server = await RealServer.start();
  t.after(() => server.close());
  const program = `
    import { Queue } from "dehydrator";
    const jobs = new Queue("${server.url}", "jobs");
    console.log(await jobs.put(1, { id: "a", replace: true }).catch(String));
    jobs.close();`;
  const put = () => run(process.execPath, "--input-type=module", "--eval", program).trim();
  assert.match(put(), /npm install ioredis/);
  for (const library of ["redis", "ioredis"]) {
    symlinkSync(join(HERE, "node_modules", library), join(project, "node_modules", library));
    assert.equal(put(), "a");
  }
});
