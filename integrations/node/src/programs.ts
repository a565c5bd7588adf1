import { spawn } from "node:child_process";
import { dirname, join } from "node:path";

/** The package that holds the programs for this machine and its C library. */
function packageName(): string {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return `@dehydrator/server-${process.platform}-${process.arch}${header.glibcVersionRuntime ? "" : "-musl"}`;
}

function folder(): string {
  const name = packageName();
  try {
    return dirname(require.resolve(`${name}/package.json`));
  } catch {
    console.error(
      `There is no ${name}: it is for Linux on x64 and arm64, and npm leaves it out with --omit=optional and --no-optional.`,
    );
    process.exit(1);
  }
}

/** Runs a program of the package in the place of this one, which ends as it ends. */
export function become(program: string): void {
  const child = spawn(join(folder(), "bin", program), process.argv.slice(2), { stdio: "inherit" });
  // A terminal sends Ctrl-C to the program too.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    console.error(String(error));
    process.exit(1);
  });
  child.on("exit", (code) => process.exit(code ?? 1));
}
