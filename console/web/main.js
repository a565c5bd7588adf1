// The entry: shows the view that the address names, and refreshes it.

import { get, post } from "./api.js";
import { BatchesView, startBatches } from "./batches.js";
import { startCounting } from "./clock.js";
import { closeAll } from "./dialog.js";
import { fill, h } from "./dom.js";
import { ElementView } from "./element.js";
import { startKeyboard } from "./keyboard.js";
import { LogView } from "./log.js";
import { LoginView } from "./login.js";
import { notice } from "./notices.js";
import { OverviewView } from "./overview.js";
import { QueueView } from "./queue.js";
import { href, parse } from "./route.js";
import { startTheme } from "./theme.js";
import { WorkersView } from "./workers.js";

const VIEWS = {
  overview: OverviewView,
  queue: QueueView,
  element: ElementView,
  workers: WorkersView,
  batches: BatchesView,
  log: LogView,
};
const NAMES = [
  ["overview", "Overview"],
  ["workers", "Workers"],
  ["batches", "Batches"],
  ["log", "Log"],
];

/** How long to wait after a failure. */
const AGAIN_MS = 1500;

const at = (id) => document.getElementById(id);

class App {
  view = null;
  #timer;
  #running;

  async start() {
    startTheme(at("theme"));
    startKeyboard(this, at("help"));
    startCounting();
    // A link to it would be a view.
    at("skip").addEventListener("click", (event) => {
      event.preventDefault();
      at("main").focus();
    });
    at("logout").addEventListener("click", () => this.#logout());
    addEventListener("hashchange", () => this.#show(true));
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
    await this.#open();
  }

  /** Asks who the user is, and shows the view. The program may not be there yet. */
  async #open() {
    clearTimeout(this.#timer);
    try {
      await this.#takeToken();
      const session = await get("session");
      this.#told("");
      at("server").textContent = [session.server, session.who ?? session.user].filter(Boolean).join(" · ");
      at("logout").hidden = !(session.login && session.logged_in);
      if (!session.logged_in) return this.#showLogin(session.login);
      at("version").textContent = session.version;
      startBatches(() => this.again());
      this.view = null;
      this.#show(false);
    } catch (error) {
      if (error.status === 401) return this.#showLogin(true);
      this.#told(`${error.message} Trying again.`);
      this.#timer = setTimeout(() => this.#open(), AGAIN_MS);
    }
  }

  /** A link may bring the token, which then leaves the address. */
  async #takeToken() {
    const { token, ...route } = parse(location.hash);
    if (!token) return;
    history.replaceState(null, "", href(route));
    await post("login", { token }).catch((error) => notice(error.message, true));
  }

  #showLogin(byUser) {
    this.#replace(new LoginView(byUser, () => this.#open()));
    this.view.element.querySelector("input").focus();
  }

  async #logout() {
    await post("logout").catch((error) => notice(error.message, true));
    this.#open();
  }

  #show(moved) {
    if (parse(location.hash).token) return void this.#open();
    const route = parse(location.hash);
    if (this.view instanceof LoginView) return;
    fill(
      at("views"),
      NAMES.map(([page, label]) =>
        h(
          "a",
          {
            href: href({ page }),
            "aria-current":
              page === route.page || (page === "overview" && ["queue", "element"].includes(route.page)) ? "page" : null,
          },
          label,
        ),
      ),
    );
    if (this.view?.takes?.(route)) this.view.go(route);
    else {
      const View = VIEWS[route.page] ?? OverviewView;
      this.#replace(new View(route));
      if (moved) {
        scrollTo(0, 0);
        // Screen readers then read the new title.
        this.view.element.querySelector("h1").focus({ preventScroll: true });
      }
    }
    this.refresh();
  }

  #replace(view) {
    this.#running?.abort();
    closeAll();
    this.view?.close?.();
    this.view = view;
    view.onchange = () => this.refresh();
    document.title = `${view.title} – Dehydrator`;
    at("main").replaceChildren(view.element);
  }

  /** Reads the view's figures now, also what was found by a long search. */
  again() {
    this.view?.again?.();
    this.refresh();
  }

  /** Reads the view's figures now, and again and again. */
  async refresh() {
    clearTimeout(this.#timer);
    this.#running?.abort();
    const view = this.view;
    if (!view?.refresh || document.hidden) return;
    const running = new AbortController();
    this.#running = running;
    let wait = view.every;
    try {
      const trouble = await view.refresh(running.signal);
      if (running.signal.aborted) return;
      this.#told("", trouble);
    } catch (error) {
      if (running.signal.aborted) return;
      if (error.status === 401) return void this.#open();
      if (error.status === undefined) console.error(error);
      this.#told(`${error.message} Trying again.`);
      wait = AGAIN_MS;
    }
    this.#timer = setTimeout(() => this.refresh(), wait);
  }

  /** Shows that something is wrong, or that all is well again. `link`: what is wrong behind the program that answers. */
  #told(text, link) {
    const trouble = at("trouble");
    if (trouble.textContent !== text) trouble.textContent = text;
    trouble.hidden = !text;
    document.body.classList.toggle("stale", Boolean(text));
    at("link").textContent = text ? "not connected" : link || "live";
    at("link").className = text || link ? "off" : "on";
  }
}

new App().start();
