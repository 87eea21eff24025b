package efa_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// lines is a writer that a logger and a test share.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestUntrusted: an operation with a peer that TLS refuses ends with TLS's error, and a program
// without a Logger has a warning of each side in the default one.
func TestUntrusted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("tcp needs Linux")
	}
	var log lines
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(was) })
	open := func(cfg efa.TCPConfig) *efa.Endpoint {
		ep, err := efa.OpenEndpoint(testContext(t), efa.Setup{Fabric: efa.Config{DeviceName: "tcp:127.0.0.1", TCP: cfg}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, ep.Close()) })
		return ep
	}
	secret := func(b byte) efa.TCPConfig { return efa.TCPConfig{Secret: bytes.Repeat([]byte{b}, 32)} }
	for name, c := range map[string]struct {
		a, b  efa.TCPConfig
		cause func(error) bool
	}{
		"another secret": {secret(1), secret(2), func(err error) bool {
			var unknown x509.UnknownAuthorityError
			return errors.As(err, &unknown)
		}},
		"plain text there": {secret(1), efa.TCPConfig{}, func(err error) bool {
			var record tls.RecordHeaderError
			return errors.As(err, &record)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := open(c.a), open(c.b)
			to, err := a.AddressVector().Insert(b.Address())
			require.NoError(t, err)
			err = a.Send(testContext(t), to, []byte("x"))
			require.ErrorIs(t, err, efa.ErrPeerFailed)
			require.True(t, c.cause(err), "%v", err)
			require.Contains(t, log.String(), "tcp: no TLS connection")
		})
	}
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), "dialed=true") && strings.Contains(log.String(), "dialed=false")
	}, time.Minute, time.Millisecond)
}
