// Stands between a client and a server, and cuts connections where a test wants it.

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

export class CuttingProxy {
  readonly url: string;
  /** How many connections were cut. */
  cuts = 0;
  readonly #sockets = new Set<Socket>();
  readonly #stalled = new WeakSet<Socket>();
  #awayUntil = 0;
  #silentUntil = 0;
  #slow = 0;
  #cut: string | undefined;
  #rate: number | undefined;
  #rename: [string, string] | undefined;

  private constructor(
    private readonly server: Server,
    port: number,
  ) {
    this.url = `redis://127.0.0.1:${(server.address() as { port: number }).port}`;
    server.on("connection", (client: Socket) => this.#serve(client, connect(port, "127.0.0.1")));
  }

  static async start(port: number): Promise<CuttingProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new CuttingProxy(server, port);
  }

  /** Lets the next such command through, and cuts the connection in place of the reply. */
  cutReplyTo(command: string): void {
    this.#cut = command;
  }

  /**
   * Lets nothing more through on the connections that there are, and does not close them. New ones are refused until so
   * many milliseconds, then silent until so many, and their replies so much later.
   */
  stall({ away = 0, silent = 0, slow = 0 } = {}): void {
    for (const socket of this.#sockets) this.#stalled.add(socket);
    const now = performance.now();
    [this.#awayUntil, this.#silentUntil, this.#slow] = [now + away, now + silent, slow];
  }

  /** Resets all connections; returns how many there were. */
  reset(): number {
    for (const socket of this.#sockets) socket.resetAndDestroy();
    return this.#sockets.size / 2;
  }

  /** Lets so many bytes of replies through each second, on new connections. */
  slow(bytes: number): void {
    this.#rate = bytes;
  }

  /** Replaces a command by another one of the same length. */
  rename(command: string, other: string): void {
    this.#rename = [command, other];
  }

  #serve(client: Socket, server: Socket): void {
    if (performance.now() < this.#awayUntil) client.resetAndDestroy();
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      if (performance.now() < this.#silentUntil) this.#stalled.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    let cutting = false;
    client.on("data", (bytes) => {
      if (this.#stalled.has(client)) return;
      const words = bytes.toString("latin1");
      if (this.#cut !== undefined && words.includes(this.#cut)) {
        this.#cut = undefined;
        cutting = true;
      }
      server.write(this.#rename === undefined ? bytes : Buffer.from(words.replace(...this.#rename), "latin1"));
    });
    const rate = this.#rate;
    server.on("data", (bytes) => {
      if (this.#stalled.has(client)) return;
      if (rate !== undefined && bytes.length > 1000) {
        server.pause();
        setTimeout(() => server.resume(), (bytes.length / rate) * 1000);
      }
      if (!cutting) {
        if (this.#slow === 0) client.write(bytes);
        else setTimeout(() => client.write(bytes), this.#slow);
        return;
      }
      this.cuts += 1;
      client.destroy();
    });
  }

  close(): void {
    this.server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
