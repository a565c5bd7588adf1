import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import ts from "typescript-5.4";
import { RealServer } from "./servers.js";

const HERE = new URL("../../", import.meta.url).pathname;

/** A project with the installed package, and neither library. */
let project: string;

function run(program: string, ...words: string[]): string {
  return execFileSync(program, words, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** Installs a library in the project. */
function give(library: string): void {
  const place = join(project, "node_modules", library);
  if (!existsSync(place)) symlinkSync(join(HERE, "node_modules", library), place);
}

before(() => {
  project = mkdtempSync(join(tmpdir(), "dehydrator-"));
  process.on("exit", () => rmSync(project, { recursive: true, force: true }));
  // It was built before the tests: `prepare` would do so again, under them.
  const packed = run("npm", "pack", HERE, "--ignore-scripts", "--silent").trim();
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }));
  run("npm", "install", "--offline", "--omit=peer", "--no-audit", "--no-fund", "--silent", `./${packed}`);
});

test("each public name has a comment", () => {
  const roots = ["index", "testing", "prometheus", "opentelemetry"].map((name) => join(HERE, `dist/src/${name}.d.ts`));
  const { NodeNext } = ts.ModuleKind;
  const program = ts.createProgram(roots, { module: NodeNext, types: ["node"], skipLibCheck: true });
  const checker = program.getTypeChecker();
  const found: string[] = [];
  const note = (symbol: ts.Symbol, name: string) => {
    if (symbol.getDocumentationComment(checker).length === 0) found.push(name);
  };
  for (const root of roots) {
    for (const one of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(root)!)!)) {
      const symbol = one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one;
      note(symbol, one.name);
      for (const member of symbol.members?.values() ?? []) {
        const isPublic = !/^(#|__|name$)|@#/.test(member.name) && !(member.flags & ts.SymbolFlags.TypeParameter);
        if (isPublic) note(member, `${one.name}.${member.name}`);
      }
    }
  }
  assert.deepEqual(found, []);
});

test("its types need no library", () => {
  writeFileSync(
    join(project, "uses.ts"),
    `import { Queue, Worker } from "dehydrator-queue";
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

for (const how of [
  ["--module", "commonjs", "--moduleResolution", "node"],
  ["--module", "node16"],
]) {
  test(`TypeScript 5.4 compiles it to CommonJS, by ${how.join(" ")}`, () => {
    for (const library of ["prom-client", "bintrees", "tdigest", "@opentelemetry"]) give(library);
    writeFileSync(
      join(project, "requires.cts"),
      `import { Queue, Worker } from "dehydrator-queue";
       import { OpenTelemetryHooks } from "dehydrator-queue/opentelemetry";
       import { PrometheusHooks } from "dehydrator-queue/prometheus";
       import { MemoryServer } from "dehydrator-queue/testing";
       new Queue(new MemoryServer(), "jobs", { hooks: new OpenTelemetryHooks() }).close();
       const jobs = new Queue<{ mail: string }>("redis://127.0.0.1", "jobs");
       const worker = new Worker(jobs, (job) => job.payload.mail.trim(), { hooks: new PrometheusHooks() });
       console.log(worker.stop(), Queue.name);`,
    );
    const types = ["--types", "node", "--typeRoots", join(HERE, "node_modules/@types")];
    const old = join(HERE, "node_modules/typescript-5.4/bin/tsc");
    run(process.execPath, old, "--strict", "--target", "es2022", ...how, ...types, "requires.cts");
    // Before Node 20.19 `require` knows no ES modules.
    assert.equal(run(process.execPath, "--no-experimental-require-module", "requires.cjs"), "undefined Queue\n");
  });
}

test("without a library it says what to install, and with either it works", async (t) => {
  const server = await RealServer.start();
  t.after(() => server.close());
  const program = `
    import { Queue } from "dehydrator-queue";
    const jobs = new Queue("${server.url}", "jobs");
    console.log(await jobs.put(1, { id: "a", replace: true }).catch(String));
    jobs.close();`;
  const put = () => run(process.execPath, "--input-type=module", "--eval", program).trim();
  assert.match(put(), /npm install ioredis/);
  for (const library of ["redis", "ioredis"]) {
    give(library);
    assert.equal(put(), "a");
  }
});

test("a program that is bundled and minified knows the server's errors", async (t) => {
  const [bare, server] = [await RealServer.bare(), await RealServer.start()];
  t.after(() => Promise.all([bare.close(), server.close()]));
  await server.client.replicaof("127.0.0.1", 1);
  for (const library of ["redis", "ioredis"]) give(library);
  writeFileSync(
    join(project, "bundled.mts"),
    `import { Queue, Worker } from "dehydrator-queue";
     for (const library of ["ioredis", "redis"] as const) {
       const [bare, jobs] = ["${bare.url}", "${server.url}"].map((url) => new Queue(url, "jobs", { library, patience: 3000 }));
       const name = (error: Error) => console.log(error.name);
       await new Worker(bare!, () => {}).run().catch(name);
       await bare!.put(1).catch(name);
       await jobs!.check();
       await jobs!.put(1).catch((error) => console.log(error.message.slice(0, 8)));
       bare!.close();
       jobs!.close();
     }`,
  );
  const words = ["--bundle", "--minify", "--platform=node", "--format=esm", "--outfile=bundled.mjs"];
  const banner =
    '--banner:js=import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
  run(join(HERE, "node_modules/.bin/esbuild"), "bundled.mts", ...words, banner);
  const told = ["ModuleMissingError", "ModuleMissingError", "READONLY"];
  const program = execFileSync(process.execPath, ["bundled.mjs"], { cwd: project, encoding: "utf8", timeout: 240_000 });
  assert.deepEqual(program.trim().split("\n"), [...told, ...told]);
});
