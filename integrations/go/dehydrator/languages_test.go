package dehydrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

const inPython = `
import json, sys, threading
from dehydrator_queue import Item, Queue, Reject, Worker
from dehydrator_queue.envelope import wrap
jobs = Queue(sys.argv[1], "jobs")
if sys.argv[2] == "put":
    for id, payload in json.loads(sys.argv[3]).items():
        jobs.put(payload, id=id)
    jobs.put("last", id=b"\xff\x00", attempts=2, group="anna", delay=0.01)
elif sys.argv[2] == "dead":
    print(json.dumps([[d.id, d.element.decode(), d.attempts, d.reason] for d in jobs.dead_letters()] + [jobs.revive()]))
else:
    seen = {}
    def work(job):
        seen[job.id.encode("utf-8", "surrogateescape").hex()] = [job.payload, job.attempt, job.headers]
        if job.payload == "rejected":
            raise Reject("no")
    worker = Worker(jobs, work, block=0.1)
    def watch():
        while len(jobs) > 0:
            threading.Event().wait(0.01)
        worker.stop()
    threading.Thread(target=watch).start()
    worker.run()
    print(json.dumps(seen))
`

const inNode = `
import(process.argv[1] + "/index.js").then(async ({ Queue, Worker, Reject }) => {
  const jobs = new Queue(process.argv[2], "jobs");
  if (process.argv[3] === "put") {
    for (const [id, payload] of Object.entries(JSON.parse(process.argv[4]))) await jobs.put(payload, { id });
    await jobs.put("last", { id: Buffer.from([0xff, 0]).toString("latin1"), attempts: 2, group: "anna", delay: 10 });
  } else if (process.argv[3] === "dead") {
    const dead = await jobs.deadLetters();
    console.log(JSON.stringify([...dead.map((d) => [d.id, d.element.toString(), d.attempt ?? d.attempts, d.reason]), await jobs.revive()]));
  } else {
    const seen = {};
    const worker = new Worker(jobs, (job) => {
      seen[Buffer.from(job.id).toString("hex")] = [job.payload, job.attempt, job.headers ?? {}];
      if (job.payload === "rejected") throw new Reject("no");
    }, { block: 100, hooks: { buried() {} } });
    const watch = async () => ((await jobs.size()) > 0 ? setTimeout(watch, 10) : worker.stop());
    watch();
    await worker.run();
    console.log(JSON.stringify(seen));
  }
  jobs.close();
});
`

// payloadsOfAll are what each language stores.
var payloadsOfAll = map[string]any{
	"text": "é \u2028 <&> \"\\ \x1e{", "number": 17.5, "null": nil, "empty": "", "list": []any{1.0, "a", map[string]any{}},
	"ïd 1": map[string]any{"b": true}, "rejected": "rejected", "long": strings.Repeat("x", 100_000),
}

func TestTasksGoFromEachLanguageToEach(t *testing.T) {
	for _, language := range []string{"Python", "Node"} {
		t.Run(language, func(t *testing.T) {
			server := realserver.Start(t)
			other := func(words ...string) []byte {
				t.Helper()
				command := exec.Command(os.Getenv("DEHYDRATOR_PYTHON"), append([]string{"-c", inPython, "redis://" + server.Addr}, words...)...)
				if language == "Node" {
					dist := os.Getenv("DEHYDRATOR_NODE_PACKAGE")
					if dist == "" {
						t.Skip("left out: DEHYDRATOR_NODE_PACKAGE names no build of integrations/node")
					}
					command = exec.Command("node", append([]string{"-e", inNode, dist, "redis://" + server.Addr}, words...)...)
				}
				command.Stderr = os.Stderr
				printed, err := command.Output()
				if err != nil {
					t.Fatal(err)
				}
				return printed
			}
			jobs := queueOf[any](t, server)

			// From Go.
			for id, payload := range payloadsOfAll {
				must(jobs.Enqueue(ctx, payload, dehydrator.TaskID(id)))(t)
			}
			must(jobs.Enqueue(ctx, "bytes", dehydrator.TaskID("\x00b\r\n")))(t)
			seen := map[string][]any{}
			if err := json.Unmarshal(other("work"), &seen); err != nil {
				t.Fatal(err)
			}
			equal(t, len(seen), len(payloadsOfAll)+1)
			for id, payload := range payloadsOfAll {
				equal(t, fmt.Sprint(seen[fmt.Sprintf("%x", id)]), fmt.Sprint([]any{payload, 1, map[string]any{}}))
			}
			equal(t, fmt.Sprint(seen["00620d0a"][0]), "bytes")
			letter := must(jobs.DeadLetters(ctx, 9))(t)[0]
			equal(t, fmt.Sprint(letter.ID, string(letter.Element), letter.Attempt, letter.Reason), `rejected"rejected"1no`)
			equal(t, must(jobs.Revive(ctx, 1))(t), 1)
			equal(t, must(jobs.Cancel(ctx, "rejected"))(t), 1)

			// To Go.
			text := must(json.Marshal(payloadsOfAll))(t)
			other("put", string(text))
			got := map[string]any{}
			var last list[int]
			start(t, dehydrator.Config{Concurrency: 1}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[any]) error {
				switch task.Payload {
				case "rejected":
					return fmt.Errorf("no such address: %w", dehydrator.SkipRetry)
				case "last":
					last.add(task.Attempt)
					return errors.New("no")
				}
				got[task.ID] = task.Payload
				return nil
			}))
			until(t, empty(t, jobs))
			equal(t, fmt.Sprint(last.all()), "[1 2]")
			for id, payload := range payloadsOfAll {
				if id != "rejected" {
					equal(t, fmt.Sprintf("%#v", got[id]), fmt.Sprintf("%#v", payload))
				}
			}
			var dead []any
			if err := json.Unmarshal(other("dead"), &dead); err != nil {
				t.Fatal(err)
			}
			equal(t, fmt.Sprint(dead[0]), `[rejected "rejected" 1 no such address: rejected]`)
			equal(t, fmt.Sprint(dead[1].([]any)[1:]), `["last" 2 no]`)
			equal(t, fmt.Sprint(dead[2]), "2")
		})
	}
}
