// The address of a view: `#/queue?node=...&key=...`. A link shows a colleague the same view.

/** Parses the fragment of the address. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { page: path || "overview", ...Object.fromEntries(new URLSearchParams(query)) };
}

/** Returns the address of a view. Empty values are left out. */
export function href({ page, ...query }) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") words.set(name, value);
  }
  const text = words.toString();
  return `#/${page === "overview" ? "" : page}${text ? `?${text}` : ""}`;
}

/** Returns the address of a queue, or of one of its views. */
export function queueHref(queue, more = {}) {
  const { node, db, key, key_b64 } = queue;
  return href({ page: "queue", node, db, key: key ?? key_b64, ...more });
}

export function elementHref(queue, id) {
  const { node, db, key, key_b64 } = queue;
  return href({ page: "element", node, db, key: key ?? key_b64, id });
}
