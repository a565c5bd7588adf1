// An operator in front of the page: reads, clicks and types in a real browser.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import { until } from "./until.js";

const { DEHYDRATOR_CHROMIUM = "/usr/bin/chromium", DEHYDRATOR_SCREENSHOTS } = process.env;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns the address of a queue, and that of an element. */
export const queueHash = (server, key, more = "") => `#/queue?${place(server, key)}${more}`;
export const elementHash = (server, key, id) => `#/element?${place(server, key)}&id=${b64(id)}`;
const place = (server, key) => `node=${encodeURIComponent(server.name)}&db=0&key=${b64(key)}`;

export const b64 = (text) => Buffer.from(text).toString("base64url");

/** A desk, and a phone in portrait. */
export const DESK = { width: 1280, height: 860 };
export const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true };

export function launch() {
  return puppeteer.launch({
    executablePath: DEHYDRATOR_CHROMIUM,
    // CI runs as root, and containers have little shared memory.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    timeout: 180_000,
  });
}

export class Operator {
  static async create(browser, url) {
    const operator = new Operator();
    operator.url = url;
    operator.context = await browser.createBrowserContext();
    operator.page = await operator.context.newPage();
    operator.page.setDefaultTimeout(180_000);
    operator.faults = [];
    operator.page.on("pageerror", (error) => operator.faults.push(error.stack ?? String(error)));
    operator.page.on("dialog", (dialog) => {
      operator.faults.push(`an alert: ${dialog.message()}`);
      dialog.dismiss();
    });
    operator.page.on("console", (message) => {
      // A browser reports each refused request as an error too.
      const expected = /Failed to load resource|net::ERR_/.test(message.text());
      if (message.type() === "error" && !expected) operator.faults.push(message.text());
    });
    await operator.page.setViewport(DESK);
    return operator;
  }

  close() {
    return this.context.close();
  }

  /** Opens a view, as by a link. */
  async open(hash = "#/") {
    await this.page.goto("about:blank");
    await this.page.goto(`${this.url}${hash}`);
    await this.page.waitForSelector("main h1");
  }

  /** Goes to another view of the page that is open, as by a link on it. It loads nothing again. */
  async go(hash) {
    await this.page.evaluate(async (wanted) => {
      if (location.hash === wanted) return;
      // The page listens too, and was first.
      const moved = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
      location.hash = wanted;
      await moved;
    }, hash);
    await this.page.waitForSelector("main h1");
  }

  openQueue(server, key, more = "") {
    return this.open(queueHash(server, key, more));
  }

  openElement(server, key, id) {
    return this.open(elementHash(server, key, id));
  }

  /** Finds what has a role and a name, as a screen reader does. */
  find(role, name) {
    return this.page.waitForSelector(`::-p-aria([name="${name}"][role="${role}"])`);
  }

  async click(role, name) {
    await until(async () => {
      const found = await this.find(role, name);
      await found.click();
      return true;
    }, `click ${role} ${name}`);
  }

  button(name) {
    return this.click("button", name);
  }

  /** Types into a field in place of what is there. */
  async type(label, text) {
    const field = await this.find(label.includes("contains") || label === "search" ? "searchbox" : "textbox", label);
    await field.click({ count: 3 });
    await this.page.keyboard.press("Backspace");
    if (text) await field.type(text);
  }

  /** The button of an action, by the action's name. */
  async act(action) {
    await until(async () => {
      const found = await this.page.$(`main [data-action="${action}"]:not([aria-disabled])`);
      await found.click();
      return true;
    }, `the button of ${action}`);
  }

  /** Returns the texts of the cells of each row of the first table. */
  rows() {
    return this.page.$eval("main table", (table) =>
      [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim())),
    );
  }

  /** Returns the ids in the first table, in order. */
  ids() {
    return this.page.$eval("main table", (table) =>
      [...table.tBodies[0].querySelectorAll("td.id")].map((cell) => cell.innerText.trim()),
    );
  }

  text(selector = "main") {
    return this.page.$eval(selector, (element) => element.innerText);
  }

  sees(text, selector = "main") {
    let last = "";
    return until(async () => {
      last = await this.text(selector);
      return last.includes(text);
    }, `to see “${text}”`).catch((error) => {
      throw new Error(`${error.message} in “${last.slice(0, 600)}”`);
    });
  }

  seesNot(text, selector = "main") {
    return until(async () => !(await this.text(selector)).includes(text), `not to see “${text}” any more`);
  }

  seesNotice(text) {
    return this.sees(text, "#notices");
  }

  seesIds(expected) {
    return until(async () => String(await this.ids()) === String(expected), `the rows ${expected}`);
  }

  async mark(...ids) {
    for (const id of ids) await this.click("checkbox", `Mark ${id}`);
  }

  /** Answers the open dialog by its button, whose name is a text or a pattern. */
  async confirm(name) {
    await this.page.waitForSelector("dialog[open]");
    await until(async () => {
      const buttons = await this.page.$$("dialog[open] button");
      for (const button of buttons) {
        const told = await button.evaluate((each) => [each.innerText, each.getAttribute("aria-disabled")]);
        if ((name instanceof RegExp ? name.test(told[0]) : told[0] === name) && told[1] !== "true") {
          await button.click();
          return true;
        }
      }
      return false;
    }, `the button ${name} in the dialog`);
    await this.page.waitForSelector("dialog[open]", { hidden: true });
  }

  dialogText() {
    return this.text("dialog[open]");
  }

  /** Returns the value of a figure, such as that of Held. */
  figure(name) {
    return this.page.$$eval(
      ".stats > div",
      (all, wanted) => all.find((each) => each.querySelector("dt").innerText === wanted)?.querySelector("dd").innerText,
      name,
    );
  }

  async theme(dark) {
    await this.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  }

  async screenshot(name) {
    if (!DEHYDRATOR_SCREENSHOTS) return;
    mkdirSync(DEHYDRATOR_SCREENSHOTS, { recursive: true });
    await this.page.screenshot({ path: join(DEHYDRATOR_SCREENSHOTS, `${name}.png`) });
  }

  /** Returns what axe finds on the page. The page's policy lets no script in but by the debugger. */
  async axe() {
    await this.page.evaluate(AXE);
    const { violations } = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    return violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`,
    );
  }

  /** Returns by how many pixels the page is wider than the screen. */
  overflow() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }
}
