package dehydrator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

func payloads(from, to int) []dehydrator.Item[int] {
	var items []dehydrator.Item[int]
	for n := from; n < to; n++ {
		items = append(items, dehydrator.NewItem(n, dehydrator.TaskID(fmt.Sprint(n)), dehydrator.ProcessIn(time.Duration(n-from)*3*time.Millisecond)))
	}
	return items
}

func eachOnce(t *testing.T, done []int, count int) {
	t.Helper()
	slices.Sort(done)
	equal(t, len(done), count)
	equal(t, len(slices.Compact(done)), count)
}

// replicaOf starts a replica, and waits until it has what its primary has.
func replicaOf(t *testing.T, primary *realserver.Server) *realserver.Server {
	replica := realserver.Start(t, "--replicaof", fmt.Sprint("127.0.0.1 ", primary.Port))
	until(t, isLinked(replica))
	return replica
}

func isLinked(replica *realserver.Server) func() bool {
	return func() bool { return strings.Contains(replica.Info("replication"), "master_link_status:up") }
}

func TestAFailoverAndBackLosesNothing(t *testing.T) {
	primary := realserver.Start(t)
	replica := replicaOf(t, primary)
	jobs := queueOf[int](t, primary, dehydrator.WithPatience(time.Minute))
	var done list[int]
	start(t, dehydrator.Config{Concurrency: 5}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error {
		done.add(task.Payload)
		return nil
	}))
	must(jobs.EnqueueMany(ctx, payloads(0, 400)))(t)
	until(t, func() bool { return done.len() > 20 })
	primary.Do("FAILOVER")
	// The worker asks the server that it knows, which is a replica now: READONLY.
	until(t, func() bool { return strings.Contains(primary.Info("replication"), "role:slave") })
	until(t, isLinked(primary))
	replica.Do("FAILOVER")
	until(t, empty(t, jobs))
	eachOnce(t, done.all(), 400)
}

func TestSentinelNamesThePrimaryBeforeAndAfterItWasKilled(t *testing.T) {
	primary := realserver.Start(t)
	replica := replicaOf(t, primary)
	conf := filepath.Join(t.TempDir(), "conf")
	monitor := fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 1\nsentinel down-after-milliseconds mymaster 1000\n", primary.Port)
	must(1, os.WriteFile(conf, []byte(monitor), 0o600))(t)
	sentinel := realserver.Bare(t, conf, "--sentinel")
	until(t, func() bool {
		replicas, _ := sentinel.Client.Do(ctx, "SENTINEL", "REPLICAS", "mymaster").Slice()
		return len(replicas) == 1
	})
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{sentinel.Addr}, MasterName: "mymaster"})
	defer client.Close()
	jobs := dehydrator.NewQueue[int](client, "jobs", dehydrator.WithPatience(time.Minute))
	var done list[int]
	_, stop := start(t, dehydrator.Config{Concurrency: 5}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error {
		done.add(task.Payload)
		return nil
	}))
	must(jobs.EnqueueMany(ctx, payloads(0, 100)))(t)
	// Writes that the replica does not have are lost with the primary.
	until(t, func() bool { return done.len() == 100 && replica.Do("DEHYDRATOR.LEN", "jobs") == int64(0) })
	primary.Kill()
	must(jobs.EnqueueMany(ctx, payloads(100, 200)))(t)
	until(t, empty(t, jobs))
	stop()
	eachOnce(t, done.all(), 200)
}

// cluster starts three nodes with all slots.
func cluster(t *testing.T) []*realserver.Server {
	t.Helper()
	var nodes []*realserver.Server
	for n := range 3 {
		node := realserver.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		node.Do("CLUSTER", "ADDSLOTSRANGE", n*16384/3, (n+1)*16384/3-1)
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", n+1)
		nodes = append(nodes, node)
	}
	for _, node := range nodes[1:] {
		nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", node.Port)
	}
	for _, node := range nodes {
		until(t, func() bool {
			info, _ := node.Client.ClusterInfo(ctx).Result()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return nodes
}

func TestQueuesOnEachNodeOfAClusterAreWorkedOnAndASlotMoves(t *testing.T) {
	nodes := cluster(t)
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{nodes[0].Addr, nodes[1].Addr}, ReadTimeout: 2 * time.Second})
	defer client.Close()
	// Slots of different nodes.
	for _, name := range []string{"a", "b", "c", "{d}:e"} {
		jobs := dehydrator.NewQueue[int](client, name)
		var done list[int]
		begun := make(chan struct{})
		_, stop := start(t, dehydrator.Config{Concurrency: 3, Block: 3 * time.Second}, jobs.HandleFunc(
			func(ctx context.Context, task *dehydrator.Task[int]) error {
				switch task.Payload {
				case 1:
					return dehydrator.SkipRetry
				case 100:
					begun <- struct{}{}
					<-ctx.Done()
					return context.Cause(ctx)
				}
				done.add(task.Payload)
				return nil
			}))
		must(jobs.EnqueueMany(ctx, payloads(0, 50)))(t)
		until(t, empty(t, jobs))
		// A third of the lease, a minute, is longer than this waits.
		must(jobs.Enqueue(ctx, 100, dehydrator.TaskID("hangs")))(t)
		<-begun
		began := time.Now()
		equal(t, must(jobs.Cancel(ctx, "hangs"))(t), 1)
		stop()
		equal(t, time.Since(began) < 10*time.Second, true)
		eachOnce(t, done.all(), 49)
		equal(t, must(jobs.DeadLetters(ctx, 2))(t)[0].ID, "1")
		equal(t, must(jobs.Revive(ctx, 2))(t), 1)
		dead := "{" + name + "}:dead"
		if name == "{d}:e" {
			dead = name + ":dead"
		}
		equal(t, must(client.Exists(ctx, dead).Result())(t), 1)
		equal(t, must(jobs.Cancel(ctx, "1"))(t), 1)
	}

	high, low := dehydrator.NewQueue[int](client, "{mail}:high", dehydrator.WithPatience(time.Minute)), dehydrator.NewQueue[int](client, "{mail}:low")
	var done list[int]
	handler := func(_ context.Context, task *dehydrator.Task[int]) error {
		done.add(task.Payload)
		return nil
	}
	_, stop := start(t, dehydrator.Config{}, high.HandleFunc(handler), low.HandleFunc(handler))
	must(low.Enqueue(ctx, 0))(t)
	until(t, func() bool { return done.len() == 1 })
	slot := must(nodes[0].Client.ClusterKeySlot(ctx, "mail").Result())(t)
	from := nodes[slot*3/16384]
	to := nodes[(slot*3/16384+1)%3]
	must(high.EnqueueMany(ctx, payloads(1, 200)))(t)
	move(t, int(slot), from, to, nodes)
	until(t, func() bool { return must(high.Len(ctx))(t) == 0 })
	must(low.Enqueue(ctx, 200))(t)
	until(t, func() bool { return must(low.Len(ctx))(t) == 0 })
	stop()
	eachOnce(t, done.all(), 201)
}

// move moves a slot with all its keys.
func move(t *testing.T, slot int, from, to *realserver.Server, nodes []*realserver.Server) {
	t.Helper()
	names := [2]any{from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")}
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
	for {
		keys := must(from.Client.ClusterGetKeysInSlot(ctx, slot, 100).Result())(t)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			from.Do("MIGRATE", "127.0.0.1", to.Port, key, 0, 60000)
		}
	}
	for _, node := range []*realserver.Server{to, from, nodes[0], nodes[1], nodes[2]} {
		node.Do("CLUSTER", "SETSLOT", slot, "NODE", names[1])
	}
}
