package dehydrator_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

// A proxy stands between clients and a server, and cuts connections where a test wants it.
type proxy struct {
	addr string

	mu     sync.Mutex
	cut    string
	count  int
	isDown bool
	conns  map[net.Conn]bool
	// Bytes per second of replies; 0: as fast as they come.
	pace int
}

// through starts a proxy of a server.
func through(t testing.TB, server *realserver.Server) *proxy {
	t.Helper()
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listening.Close() })
	p := &proxy{addr: listening.Addr().String(), conns: map[net.Conn]bool{}}
	go func() {
		for {
			client, err := listening.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", server.Addr)
			if err != nil || !p.add(client) {
				_ = client.Close()
				continue
			}
			go p.serve(client, server)
		}
	}()
	return p
}

// cutReplyTo lets the next such command through, and cuts the connection in place of the reply.
func (p *proxy) cutReplyTo(command string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = command
}

// slow lets only so many bytes of replies through in a second.
func (p *proxy) slow(pace int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace = pace
}

func (p *proxy) wait(bytes int) {
	p.mu.Lock()
	pace := p.pace
	p.mu.Unlock()
	if pace > 0 {
		time.Sleep(time.Duration(bytes) * time.Second / time.Duration(pace))
	}
}

// down cuts all connections, and accepts no more, until up.
func (p *proxy) down() {
	p.reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isDown = true
}

// reset resets all connections, and returns how many there were.
func (p *proxy) reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer clear(p.conns)
	for client := range p.conns {
		_ = client.(*net.TCPConn).SetLinger(0)
		_ = client.Close()
	}
	return len(p.conns)
}

// up accepts connections again.
func (p *proxy) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isDown = false
}

func (p *proxy) add(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[client] = true
	return !p.isDown
}

// cuts returns how many connections were cut.
func (p *proxy) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *proxy) serve(client, server net.Conn) {
	cutting := make(chan struct{}, 1)
	go func() {
		defer server.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := client.Read(buffer)
			p.mu.Lock()
			if p.cut != "" && bytes.Contains(buffer[:n], []byte(p.cut)) {
				p.cut = ""
				cutting <- struct{}{}
			}
			p.mu.Unlock()
			if err != nil {
				return
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	defer client.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		select {
		case <-cutting:
			p.mu.Lock()
			p.count++
			p.mu.Unlock()
			return
		default:
		}
		p.wait(n)
		if _, failed := client.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
