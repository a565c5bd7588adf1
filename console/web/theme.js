// Dark and light: the system's, or the reader's choice, which this browser keeps.

const NAME = "dehydrator.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

const chosen = () => document.documentElement.dataset.theme;

const isDark = () => (chosen() ?? (system.matches ? "dark" : "light")) === "dark";

/** Calls `listener` when the colours change. Returns a function that ends that. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function toggleTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  store(chosen());
  tell();
}

export function startTheme(button) {
  const kept = stored();
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  system.addEventListener("change", tell);
  button.addEventListener("click", toggleTheme);
  listeners.add(() => name(button));
  name(button);
}

function name(button) {
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-label", `${button.textContent} colours`);
}

function tell() {
  for (const listener of listeners) listener();
}

// A browser may refuse to store anything.
function store(value) {
  try {
    localStorage.setItem(NAME, value);
  } catch {}
}

function stored() {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}

/** Returns a colour of the style sheet, as of the present theme. */
export function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
