// Creates elements. Text is set as text: nothing here, or anywhere on the page, parses HTML.

/** Elements with event listeners. */
const listening = new WeakSet();

/**
 * Creates an element. `properties`: `class`, `on<event>` handlers, `data` for data attributes; true and false set and
 * leave out an attribute; anything else is an attribute's text. Children are nodes, texts, or arrays of them.
 */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) {
      element.addEventListener(key.slice(2), value);
      listening.add(element);
    } else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child);
  }
}

/**
 * Gives an element new content, and keeps the nodes that are alike: focus, selection and half-made clicks stay.
 * An element with listeners is kept, with its old listeners, if the attributes below are the same.
 */
export function fill(element, ...children) {
  const next = document.createElement("div");
  append(next, children);
  adopt(element, next);
}

function adopt(element, next) {
  const before = [...element.childNodes];
  const after = [...next.childNodes];
  after.forEach((node, i) => {
    const old = before[i];
    if (!old) element.append(node);
    else if (node.nodeType === Node.TEXT_NODE && old.nodeType === Node.TEXT_NODE) {
      if (old.data !== node.data) old.data = node.data;
    } else if (isKept(old, node)) {
      for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of node.attributes)
        if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      if (old.localName === "progress" && node.hasAttribute("max")) old.value = node.value;
      if (old.localName === "input" && old.type === "checkbox") old.checked = node.hasAttribute("checked");
      adopt(old, node);
    } else old.replaceWith(node);
  });
  for (const node of before.slice(after.length)) node.remove();
}

function isKept(old, node) {
  if (old.nodeType !== Node.ELEMENT_NODE || node.nodeType !== Node.ELEMENT_NODE) return false;
  if (old.localName !== node.localName) return false;
  if (!listening.has(old) && !listening.has(node)) return true;
  return listening.has(old) && listening.has(node) && sameAttributes(old, node);
}

// `checked` is what a listener changes.
const sameAttributes = (old, node) =>
  ["class", "data-action", "data-part", "data-row", "data-stop", "aria-disabled", "title"].every(
    (name) => old.getAttribute(name) === node.getAttribute(name),
  );

let ids = 0;

/** Returns an id that no other element has. */
export function unique(prefix = "x") {
  ids += 1;
  return `${prefix}-${ids}`;
}

/** Creates a label with its field, and an optional hint. */
export function labelled(text, field, hint) {
  field.id ||= unique("field");
  const parts = [h("label", { for: field.id }, text), field];
  if (hint) {
    const id = unique("hint");
    field.setAttribute("aria-describedby", id);
    parts.push(h("small", { id, class: "hint" }, hint));
  }
  return h("div", { class: "labelled" }, parts);
}
