// Parses server URLs.

export interface Host {
  readonly host: string;
  readonly port: number;
}

export interface Address {
  readonly kind: "server" | "sentinel" | "cluster";
  /** A URL that every library understands; for Sentinel and clusters, without the hosts. */
  readonly url: URL;
  readonly text: string;
  readonly hosts: readonly Host[];
  /** Sentinel's name of the primary. */
  readonly name: string;
  readonly db: number;
}

/**
 * Parses a URL. In addition to those of the libraries, there are `redis+cluster://host:port,host:port`, and
 * `redis+sentinel://user:password@host:port,host:port/name/db` for the primary that Sentinel calls `name`.
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

function hostOf(text: string, otherwise: number): Host {
  const [, host = "", port] = /^(.*?)(?::(\d+))?$/.exec(text) ?? [];
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port ?? otherwise) };
}
