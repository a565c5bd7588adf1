// Where the server is, as a URL says it.

export interface Address {
  readonly kind: "server" | "sentinel" | "cluster";
  /** A URL that every library reads; of Sentinel and a cluster, without its hosts. */
  readonly url: URL;
  readonly text: string;
  readonly hosts: readonly { host: string; port: number }[];
  /** What Sentinel calls the primary. */
  readonly name: string;
  readonly db: number;
}

/**
 * Reads a URL. Beside those of the libraries there are `redis+cluster://host:port,host:port`, and
 * `redis+sentinel://user:password@host:port,host:port/name/db` for what Sentinel calls `name`.
 */
export function addressOf(url: string): Address {
  const [, scheme = "", how = "", user = "", hosts = "", path = ""] =
    /^(\w+)(?:\+(\w+))?:\/\/(?:(.*)@)?([^/?#]*)(.*)$/.exec(url) ?? [];
  if (!/^(rediss?|valkeys?)$/.test(scheme) || !/^(sentinel|cluster)?$/.test(how)) {
    throw new TypeError(`this is no URL of a server: ${url.replace(/\/\/.*@/, "//…@")}`);
  }
  const known = scheme.replace("valkey", "redis");
  if (how === "") {
    const text = url.replace(/^valkey/, "redis");
    return { kind: "server", url: new URL(text), text, hosts: [], name: "", db: 0 };
  }
  const [name = "", db = "0"] = path.split("/").filter((part) => part !== "");
  if (how === "sentinel" && name === "") {
    throw new TypeError("a URL of Sentinel ends with the name of the primary: redis+sentinel://host:26379/mymaster");
  }
  return {
    kind: how as Address["kind"],
    url: new URL(`${known}://${user === "" ? "" : `${user}@`}host`),
    text: url,
    hosts: hosts.split(",").map((one) => hostOf(one, how === "sentinel" ? 26379 : 6379)),
    name,
    db: Number(db),
  };
}

function hostOf(text: string, otherwise: number): { host: string; port: number } {
  const [, host = "", port] = /^(.*?)(?::(\d+))?$/.exec(text) ?? [];
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port ?? otherwise) };
}
