// Package realserver starts real servers with the module, for tests.
package realserver

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Until waits until a condition holds.
func Until(t testing.TB, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come true within two minutes")
		}
	}
}

// A Server has a folder and a port of its own, and can be killed and started again.
type Server struct {
	Port int
	Addr string
	// Client is for checks and actions of tests.
	Client *redis.Client

	t       testing.TB
	folder  string
	options []string
	process *exec.Cmd
}

// Start starts a server with the module, until the test ends.
func Start(t testing.TB, options ...string) *Server {
	module := os.Getenv("DEHYDRATOR_MODULE")
	if module == "" {
		t.Fatal("DEHYDRATOR_MODULE names no module")
	}
	durable := []string{"--loadmodule", module, "--save", "", "--appendonly", "yes", "--appendfsync", "no",
		"--repl-diskless-sync-delay", "0"}
	return Bare(t, append(durable, options...)...)
}

// Bare starts a server without the module.
func Bare(t testing.TB, options ...string) *Server {
	t.Helper()
	port := freePort()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := &Server{Port: port, Addr: addr, t: t, folder: t.TempDir(), options: options}
	s.Client = redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() {
		s.Kill()
		_ = s.Client.Close()
		if t.Failed() {
			t.Logf("the log of %s: %s", addr, s.log())
		}
	})
	s.Up()
	return s
}

// freePort draws a port below those that the system draws for clients: one of them would take the port of a server that
// is away for a moment. A node of a cluster also has one that is 10,000 above.
func freePort() int {
	for {
		port := 12_000 + rand.IntN(10_000)
		if isFree(port) && isFree(port+10_000) {
			return port
		}
	}
}

func isFree(port int) bool {
	listening, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = listening.Close()
	}
	return err == nil
}

func (s *Server) log() string {
	text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
	return string(text[max(0, len(text)-2000):])
}

// Up starts the server, and waits until it answers.
func (s *Server) Up() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	words := append(append([]string{}, s.options...), "--port", fmt.Sprint(s.Port), "--dir", s.folder)
	s.process = exec.Command(cmp.Or(os.Getenv("DEHYDRATOR_SERVER"), "redis-server"), words...)
	s.process.Stdout, s.process.Stderr = log, log
	// It dies with the tests, however they end.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	Until(s.t, func() bool {
		err := s.Client.Ping(context.Background()).Err()
		return err == nil || strings.HasPrefix(err.Error(), "NOAUTH")
	})
}

// Kill kills the server.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// Do sends a command, and returns its reply.
func (s *Server) Do(words ...any) any {
	s.t.Helper()
	reply, err := s.Client.Do(context.Background(), words...).Result()
	if err != nil && err != redis.Nil {
		s.t.Fatalf("%v: %v", words, err)
	}
	return reply
}

// Info returns a section of INFO.
func (s *Server) Info(section string) string {
	text, _ := s.Client.Info(context.Background(), section).Result()
	return text
}
