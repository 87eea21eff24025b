//go:build linux

package efa_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// page is a log that several goroutines write.
type page struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// TestAutoDevice: auto is shared memory and sockets; it says so, and which of them a
// peer has got.
func TestAutoDevice(t *testing.T) {
	var log page
	fab, err := efa.Open(efa.Config{
		DeviceName: "auto",
		TCP:        efa.TCPConfig{Secret: []byte("of the job, and not this one"), Addr: netip.MustParseAddr("127.0.0.1")},
		Logger:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fab.Close()) })
	require.Regexp(t, `^multi\(shm:\S+, tcp:127\.0\.0\.1\)$`, fab.Name())
	var used []string
	for _, c := range fab.Devices() {
		if c.Used {
			used = append(used, c.Name)
		}
		require.Contains(t, log.String(), c.Name)
	}
	require.Len(t, used, 2)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dom.Close()) })
	a, b := newEndpoint(t, dom, efa.EndpointConfig{}), newEndpoint(t, dom, efa.EndpointConfig{})
	require.Regexp(t, `^shm://\S+;tcp://\[::ffff:127\.0\.0\.1\]:\d+:\d+$`, a.ep.Address().String())
	introduce(t, a, b)
	require.Contains(t, log.String(), `msg="efa: device for a peer"`)
	paths := strings.Split(b.ep.Address().String(), ";")
	tcpAlone, err := efa.ParseAddress(paths[1])
	require.NoError(t, err)
	name, err := a.av.Device(a.peer)
	require.NoError(t, err)
	require.Equal(t, used[0], name)
	op := start(t, a, &efa.SendReq{To: a.peer, Buf: []byte("x")})
	_, err = b.ep.Recv(testContext(t), make([]byte, 1))
	require.NoError(t, err)
	done(t, op)

	c := newEndpoint(t, dom, efa.EndpointConfig{})
	c.peer, err = c.av.Insert(tcpAlone)
	require.NoError(t, err)
	name, err = c.av.Device(c.peer)
	require.NoError(t, err)
	require.Equal(t, used[1], name)
	op = start(t, c, &efa.SendReq{To: c.peer, Buf: []byte("x")})
	_, err = b.ep.Recv(testContext(t), make([]byte, 1))
	require.NoError(t, err)
	done(t, op)
}

// TestTCPNames: what may be said of sockets, and what not.
func TestTCPNames(t *testing.T) {
	for _, c := range []struct {
		cfg  efa.Config
		want string
		err  string
	}{
		{cfg: efa.Config{DeviceName: "tcp"}, want: "tcp:127.0.0.1"},
		{cfg: efa.Config{DeviceName: "tcp:127.0.0.3"}, want: "tcp:127.0.0.3"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Addr: netip.MustParseAddr("127.0.0.4")}}, want: "tcp:127.0.0.4"},
		{cfg: efa.Config{DeviceName: "tcp:127.0.0.5", TCP: efa.TCPConfig{Addr: netip.MustParseAddr("127.0.0.4")}}, want: "tcp:127.0.0.5"},
		{cfg: efa.Config{DeviceName: "tcp:192.0.2.1"}, err: "Insecure"},
		{cfg: efa.Config{DeviceName: "auto:192.0.2.1"}, err: "Insecure"},
		{cfg: efa.Config{DeviceName: "tcp:0.0.0.0"}, err: "0.0.0.0"},
		{cfg: efa.Config{DeviceName: "tcp:::1?host=x"}, err: "for shm"},
		{cfg: efa.Config{DeviceName: "tcp:"}, err: "device"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Timeout: -1}}, err: "timeout"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Secret: make([]byte, 16), TLS: new(tls.Config)}}, err: "both TLS and Secret"},
		{cfg: efa.Config{DeviceName: "tcp:localhost"}, err: "localhost"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Secret: []byte("short")}}, err: "secret"},
		{cfg: efa.Config{DeviceName: "auto", TCP: efa.TCPConfig{Secret: []byte("short")}}, err: "secret"},
	} {
		fab, err := efa.Open(c.cfg)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, fab.Name())
		require.NoError(t, fab.Close())
	}
}
