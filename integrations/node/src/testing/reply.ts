// The replies of the server in memory.

/** Bulk strings are strings of Latin-1. */
export type Reply = string | number | null | Reply[];

/** Says OK, which is no bulk string. */
export const OK = "OK";
