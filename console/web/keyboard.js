// Keyboard shortcuts. Single letters can be switched off, for those who dictate.

import { ask, isOpen } from "./dialog.js";
import { h } from "./dom.js";
import { href } from "./route.js";
import { toggleTheme } from "./theme.js";

const HELP = [
  [
    "Everywhere",
    [
      ["?", "This list"],
      ["/", "Filter"],
      ["g o", "Overview"],
      ["g w", "Workers"],
      ["g b", "Batches"],
      ["g l", "Log"],
      ["t", "Dark or light"],
      ["Esc", "Close; leave a field; then up: from an element to its queue, from a queue to the overview"],
    ],
  ],
  [
    "Lists",
    [
      ["j", "Next row"],
      ["k", "Row before"],
      ["Enter", "Open the row"],
      ["x", "Mark the row"],
      ["n", "Next page"],
      ["N", "Page before"],
      ["1 … 7", "Views of a queue"],
      [".", "Read again"],
    ],
  ],
  [
    "Actions, on what is marked, on the row, or on the element",
    [
      ["r", "Run now; retry a dead letter"],
      ["p", "Postpone"],
      ["c", "Cancel; drop a dead letter"],
      ["b", "Give back"],
      ["e", "Edit (an element that is open)"],
    ],
  ],
];

const NAME = "dehydrator.shortcuts";
let on = true;
let prefix = "";

/** `app` has `view` and `refresh()`. */
export function startKeyboard(app, helpButton) {
  try {
    on = localStorage.getItem(NAME) !== "off";
  } catch {}
  helpButton.addEventListener("click", showHelp);
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isOpen()) return;
    if (press(app, event.key, event.target)) event.preventDefault();
  });
}

const isField = (element) => element.matches?.("input:not([type=checkbox]), textarea, select");

function press(app, key, target) {
  if (key === "Escape") {
    if (isField(target)) target.blur();
    else document.querySelector("[data-up]")?.click();
    return true;
  }
  if (!on || isField(target)) return false;
  if (prefix === "g") {
    prefix = "";
    const page = { o: "overview", w: "workers", b: "batches", l: "log" }[key];
    if (page) location.hash = href({ page });
    return Boolean(page);
  }
  if (/^[1-9]$/.test(key)) return app.view?.tab?.(Number(key)) ?? false;
  switch (key) {
    case "g":
      prefix = "g";
      setTimeout(() => {
        prefix = "";
      }, 1500);
      return true;
    case "?":
      showHelp();
      return true;
    case "/": {
      const field = Object.values(app.view?.fields ?? {})[0];
      field?.focus();
      field?.select();
      return Boolean(field);
    }
    case "j":
      return move(1);
    case "k":
      return move(-1);
    case "x": {
      const row = target.closest?.("tr[data-row]");
      if (!row || !app.view?.mark) return false;
      app.view.mark(row.dataset.row);
      return true;
    }
    case "n":
      app.view?.page?.(1);
      return true;
    case "N":
      app.view?.page?.(-1);
      return true;
    case ".":
      app.again();
      return true;
    case "t":
      toggleTheme();
      return true;
    default:
      return app.view?.press?.(key) ?? false;
  }
}

/** Moves the focus to another row. */
function move(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.offsetParent !== null);
  const at = rows.indexOf(document.activeElement?.closest("tr"));
  const row = at < 0 ? rows.at(step > 0 ? 0 : -1) : rows[at + step];
  const place = row?.querySelector("td:not(.mark) a[href], td:not(.mark) button") ?? row?.querySelector("input");
  place?.focus();
  place?.scrollIntoView({ block: "nearest" });
  return true;
}

async function showHelp() {
  const check = h("input", {
    type: "checkbox",
    checked: on,
    onchange: () => {
      on = check.checked;
      try {
        localStorage.setItem(NAME, on ? "on" : "off");
      } catch {}
    },
  });
  const lists = HELP.map(([title, keys]) => [
    h("h3", {}, title),
    h(
      "dl",
      { class: "keys" },
      keys.map(([key, text]) =>
        h(
          "div",
          {},
          h(
            "dt",
            {},
            key.split(" ").map((each) => (each === "…" ? "…" : h("kbd", {}, each))),
          ),
          h("dd", {}, text),
        ),
      ),
    ),
  ]);
  await ask({
    title: "Keys",
    body: [lists, h("label", { class: "switch" }, check, " Single-letter shortcuts are on")],
  });
}
