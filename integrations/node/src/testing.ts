/**
 * For tests of programs that use this package: a queue without a server, whose clock the test sets.
 *
 *     const memory = new MemoryServer();
 *     const jobs = new Queue(memory, "jobs");
 *     await jobs.put("mail", { delay: 60_000 });
 *     memory.advance(60_000);
 *     await memory.drain(new Worker(jobs, send));
 */

export { MemoryServer } from "./testing/memory.js";
