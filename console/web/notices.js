// Short messages at the bottom of the page, which screen readers read aloud.

import { h } from "./dom.js";

const SHOWN_MS = 8000;

/** Shows a message for some seconds. `bad` ones stay until they are closed. Returns what takes it away. */
export function notice(text, bad = false) {
  const place = document.getElementById("notices");
  const close = h("button", { type: "button", "aria-label": "Close this message", onclick: () => box.remove() }, "×");
  const box = h("div", { class: bad ? "notice bad" : "notice" }, h("span", {}, text), close);
  place.append(box);
  while (place.children.length > 4) place.firstChild.remove();
  if (!bad) setTimeout(() => box.remove(), SHOWN_MS);
  return () => box.remove();
}
