// One browser and a few servers, which all tests share. Each test has queues of its own.

import { launch, Operator } from "./operator.js";
import { Server, Top } from "./servers.js";

/** A user who may read everything, and change nothing. */
export const VIEWER = ["viewer", "look-only"];

/** The rights to look: those of the documentation. */
const LOOK = [
  "~*",
  "&*",
  "-@all",
  "+@read",
  "+@connection",
  "+info",
  "+time",
  "+role",
  "+scan",
  "+multi",
  "+discard",
  "+exec",
];

class Scene {
  async open() {
    [this.browser, this.server] = await Promise.all([launch(), Server.start()]);
    await this.server.call("ACL", "SETUSER", VIEWER[0], "on", `>${VIEWER[1]}`, ...LOOK, ...reads());
    this.top = await Top.start(`redis://${this.server.name}`);
    await this.top.ready();
    this.operator = await Operator.create(this.browser, this.top.url);
  }

  async close() {
    await this.browser?.close();
    await this.top?.stop();
    await this.server?.stop();
  }

  /** An operator with a browser of their own, at another address if one is given. */
  another(url = this.top.url) {
    return Operator.create(this.browser, url);
  }
}

/** Older servers put the module's commands in no category. */
const reads = () =>
  ["HELP", "LEN", "LOOK", "PTTL", "TTN", "INFO", "LATE", "RANGE", "SCAN", "SCHEDULES"].map(
    (name) => `+dehydrator.${name.toLowerCase()}`,
  );

export const scene = new Scene();
