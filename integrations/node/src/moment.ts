// Converts durations and points in time for the server.

/** Returns a duration in whole milliseconds, rounded up: never early. */
export function milliseconds(duration: number): number {
  if (!Number.isFinite(duration)) throw new RangeError(`a duration is a number of milliseconds, and not ${duration}`);
  return Math.max(0, Math.ceil(duration));
}

/** Returns a point in time, or a number of milliseconds since 1970, in whole milliseconds since 1970. */
export function unixMilliseconds(moment: Date | number): number {
  const at = Number(moment);
  if (!Number.isFinite(at)) throw new RangeError(`a moment is a Date, or milliseconds since 1970, and not ${moment}`);
  return Math.max(0, Math.ceil(at));
}
