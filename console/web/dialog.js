// Questions in a modal dialog. The browser keeps the focus inside, and puts it back afterwards.

import { h, unique } from "./dom.js";

/**
 * Asks, and returns the form's fields, or null if it was closed without an answer.
 * `check` gets the fields, and returns what is wrong with them; `start` is called when the dialog is open.
 */
export function ask({ title, body, confirm, danger = false, check, start, close = "Back" }) {
  return new Promise((resolve) => {
    const name = unique("title");
    const wrong = h("p", { class: "wrong", role: "alert" });
    const yes = confirm && h("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm);
    const form = h("form", { method: "dialog", novalidate: true }, [
      h("h2", { id: name }, title),
      h("div", { class: "body" }, body),
      wrong,
      h("div", { class: "buttons" }, [
        h("button", { type: "button", class: "back", onclick: () => dialog.close() }, confirm ? close : "Close"),
        yes,
      ]),
    ]);
    const dialog = h("dialog", { "aria-labelledby": name }, form);
    let answer = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (yes?.getAttribute("aria-disabled") === "true") return;
      const fields = Object.fromEntries(new FormData(form));
      const fault = check?.(fields);
      wrong.textContent = fault ?? "";
      if (fault) return;
      answer = fields;
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    // What is typed replaces what the form suggests.
    const first = form.querySelector(".body input:not([type=checkbox])");
    if (first === document.activeElement) first.select();
    start?.({ dialog, form, yes });
  });
}

export const isOpen = () => document.querySelector("dialog[open]") !== null;

/** Closes dialogs without an answer: the view that they belong to is gone. */
export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}
