// Requests to the program that serves the page.

/** An error reply, or none: `status` is 0 if the program does not answer. */
class ApiError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const SILENT = "dehydrator-top does not answer.";

async function request(path, options) {
  let response;
  try {
    response = await fetch(`api/${path}`, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(SILENT, 0, "SILENT");
  }
  if (response.status === 204) return null;
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (!response.ok) {
    throw new ApiError(body?.error ?? `${SILENT} (HTTP ${response.status})`, response.status, body?.code ?? "HTTP");
  }
  return body;
}

/** Returns a path with a query. Undefined, null and empty values are left out. */
function withQuery(path, query = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") words.set(name, value);
  }
  const text = words.toString();
  return text ? `${path}?${text}` : path;
}

export const get = (path, query, signal) => request(withQuery(path, query), { signal });

/** Sends a change. A page of another origin cannot set the header. */
export const post = (path, body = {}) =>
  request(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-dehydrator": "1" },
    body: JSON.stringify(body),
  });

/** Returns the query that names a queue, from the fields of a reply or of a route. */
export const nameOf = ({ node, db, key, key_b64 }) => ({ node, db, key: key ?? key_b64 });

/** Returns the JSON that names a queue. */
export const queueOf = ({ node, db, key, key_b64 }) => ({ node, db: Number(db), key_b64: key ?? key_b64 });
