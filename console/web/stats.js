// A row of figures.

import { h } from "./dom.js";
import { titleOf } from "./titles.js";

/** Creates a list of figures, each `[name, value, class]`. What is no figure is left out. */
export const stats = (figures) =>
  h(
    "dl",
    { class: "stats" },
    figures
      .filter(Boolean)
      .map(([name, value, mood]) =>
        h("div", { class: mood || null, title: titleOf(name) }, h("dt", {}, name), h("dd", {}, value)),
      ),
  );
