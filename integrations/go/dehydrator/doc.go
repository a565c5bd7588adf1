// Package dehydrator is a queue of delayed tasks and its workers, on a server with the module Dehydrator: Redis 7.0 or
// later, or Valkey.
//
// A [Queue] holds tasks of one payload type. A [Worker] sleeps in the server until a task is due, takes it under a
// lease, and calls a [Handler]:
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	mails := dehydrator.NewQueue[Mail](client, "mails")
//	id, err := mails.Enqueue(ctx, Mail{To: "anna"}, dehydrator.ProcessIn(time.Minute))
//
//	worker := dehydrator.NewWorker(dehydrator.Config{Concurrency: 20}, mails.HandleFunc(send))
//	err = worker.Run(ctx)
//
// A task is done at least once: make handlers idempotent. The lease is renewed while the handler runs; if the worker
// dies, another worker gets the task when the lease expires. A handler that returns an error, or panics, is called
// again later, until the attempts of the task are used up. Then the task becomes a dead letter.
//
// The server keeps limits ([Queue.Limit]) and schedules ([Queue.Every]), which put tasks by themselves.
//
// The elements in the server are those of the packages for Python and Node, whose queues and workers can use the same
// keys.
package dehydrator
