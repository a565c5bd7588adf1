// What the page's user may do to a queue: the server's ACL decides, and the API passes on its reasons.

import { h, unique } from "./dom.js";
import { notice } from "./notices.js";

/** Returns why an action is refused, or null. */
export function refusal(rights, action) {
  const reason = rights?.[action];
  return reason === undefined ? null : reason;
}

/**
 * Creates the button of an action. Without the right it stays in reach of the keyboard, says that it is disabled and
 * why, and does nothing.
 */
export function actionButton({ label, action, part, reason, onclick, danger, shortcut }) {
  const hint = reason && unique("reason");
  const button = h(
    "button",
    {
      type: "button",
      class: danger ? "danger" : null,
      "aria-disabled": reason ? "true" : null,
      "aria-describedby": hint,
      "aria-keyshortcuts": shortcut,
      title: reason,
      data: part ? { action, part } : { action },
      onclick: () => (reason ? notice(`${plain(label)}: ${reason}`) : onclick()),
    },
    label,
  );
  return reason ? h("span", { class: "refused" }, button, h("span", { class: "hidden", id: hint }, reason)) : button;
}

const plain = (label) => label.replace(/…$/, "");
