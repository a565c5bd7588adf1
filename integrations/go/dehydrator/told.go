package dehydrator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// hear learns of cancelled tasks at once, from a channel of each queue, until the context ends. Renewals find out about what
// it misses, and about all where a user may not subscribe.
func (w *Worker) hear(ctx context.Context) {
	queues := map[string]string{}
	var channels []string
	for _, one := range w.order {
		channel := cancelledChannel(one.server.client, one.name)
		queues[channel] = one.name
		channels = append(channels, channel)
	}
	var heard *redis.PubSub
	switch client := w.order[0].server.client.(type) {
	case *redis.Client:
		heard = client.Subscribe(ctx, channels...)
	case *redis.ClusterClient:
		heard = client.SSubscribe(ctx, channels...)
	default:
		return
	}
	// A read does not end with the context.
	defer context.AfterFunc(ctx, func() { _ = heard.Close() })()
	for pause := firstPause; ; {
		message, err := heard.ReceiveMessage(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = firstPause
			queue := queues[message.Channel]
			w.confirm(ctx, w.leases, queue, slices.DeleteFunc(w.held.byQueue()[queue], func(d *delivery) bool {
				return d.meta.ID != message.Payload
			}))
		default:
			if _, refused := replied(err); refused && !passes(err) {
				w.config.Logger.Debug("dehydrator: cancelled tasks are found by renewals", "error", err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
				pause = min(2*pause, longestPause)
			}
		}
	}
}

// cancelledChannel returns where the server publishes the ids of tasks that their workers have lost: on a cluster, a channel
// in the slot of the key.
func cancelledChannel(client redis.UniversalClient, key string) string {
	if client, ok := client.(*redis.Client); ok {
		return fmt.Sprintf("__cancelled@%d__:%s", client.Options().DB, key)
	}
	if _, tag, found := strings.Cut(key, "{"); found && strings.Index(tag, "}") > 0 {
		return "__cancelled@0__:" + key
	}
	return "__cancelled@0__:{" + key + "}"
}
