package dehydrator

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// forPolls returns a client of the same server with connections of its own, where `silence` is how long the server may send
// nothing: go-redis limits the time of a whole reply, which a large one over a slow network exceeds. It returns the client
// itself, and a block that suits it, if that is of another kind.
func forPolls(client redis.UniversalClient, block time.Duration) (redis.UniversalClient, time.Duration, func()) {
	silence := block + replyTimeout
	switch client := client.(type) {
	case *redis.Client:
		options := *client.Options()
		// A server resends by itself. And 0 of initialized options would mean the default.
		options.MaxRetries, options.ReadTimeout, options.MinIdleConns = -1, silence, 0
		options.Dialer = patient(options.Dialer)
		// These cannot be shared.
		options.PushNotificationProcessor, options.MaintNotificationsConfig = nil, unmaintained
		own := redis.NewClient(&options)
		return own, block, func() { _ = own.Close() }
	case *redis.ClusterClient:
		options := *client.Options()
		options.MaxRetries, options.ReadTimeout, options.MinIdleConns = -1, silence, 0
		if options.Dialer == nil {
			options.Dialer = redis.NewDialer(&redis.Options{DialTimeout: options.DialTimeout, TLSConfig: options.TLSConfig})
		}
		options.Dialer, options.MaintNotificationsConfig = patient(options.Dialer), unmaintained
		own := redis.NewClusterClient(&options)
		return own, block, func() { _ = own.Close() }
	}
	// The default of go-redis is three seconds.
	return client, min(block, 1500*time.Millisecond), func() {}
}

// unmaintained asks for no notices of maintenance.
var unmaintained = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

// forLeases returns the client of polls, with another timeout, if it is of a kind that can have one, or else the user's.
func forLeases(client, polling redis.UniversalClient, timeout time.Duration) redis.UniversalClient {
	if own, ok := polling.(*redis.Client); ok {
		return own.WithTimeout(timeout)
	}
	return client
}

// patient returns a dialer of connections whose read timeout begins anew with each byte.
func patient(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &patientConn{Conn: conn}, nil
	}
}

type patientConn struct {
	net.Conn
	// silence is a duration; 0: without limit.
	silence atomic.Int64
}

func (c *patientConn) SetReadDeadline(at time.Time) error {
	c.silence.Store(0)
	if !at.IsZero() {
		c.silence.Store(int64(time.Until(at)))
	}
	return c.Conn.SetReadDeadline(at)
}

func (c *patientConn) SetDeadline(at time.Time) error {
	if err := c.SetReadDeadline(at); err != nil {
		return err
	}
	return c.Conn.SetWriteDeadline(at)
}

func (c *patientConn) Read(into []byte) (int, error) {
	if silence := c.silence.Load(); silence > 0 {
		if err := c.Conn.SetReadDeadline(time.Now().Add(time.Duration(silence))); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(into)
}
