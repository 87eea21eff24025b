package tcp

import (
	"crypto/tls"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/tcp/jobcert"
	"github.com/efactor/efactor/wire"
)

// maxIovecs is how many pieces one call writes.
const maxIovecs = 64

// stream carries the bytes of one connection. The shard that owns the queue pair makes
// all calls; none of them waits or, after the first few, allocates.
//
//	plain      Linux: the socket itself
//	tlsStream  Linux: crypto/tls between the shard and the socket; a goroutine for the handshake
//	relay      other systems: goroutines between the shard and the socket, with TLS or without
//
// After an error other calls may be made and return one, too; only close is
// required. When readv has more after it found too little, or an error, or writev has room after
// it had too little, the port's network sees that (plain), or conn.ring is called.
type stream interface {
	// readv fills dst and then more with received bytes, and returns their number. 0 and
	// nil: nothing now. io.EOF: the other side will send no more. Bytes from before an
	// error may be returned with it.
	readv(dst, more []byte) (int, error)

	// writev takes bufs in order, as much as there is room for, and returns the
	// number of bytes. They will be sent without a further call.
	writev(bufs [][]byte) (int, error)

	// unacked is how many bytes that writev took the other host has not acknowledged. It
	// may cost a system call. (A falling number is a sign of life of a slow connection.)
	unacked() int

	// vouch returns an error unless the other side may claim to be the queue pair of
	// that raw address, connid (its Q_Key) included: a preamble states all three, that
	// of the accepting side as well. It is called when bytes have arrived, so a
	// handshake is over.
	vouch(who wire.RawAddr) error

	// over reports whether the other side was seen to have ended the connection.
	over() bool

	// near is our end's address.
	near() (address, error)

	// shut ends our direction after the pending output.
	shut()

	// close releases everything: at once, or after the output that writev has taken.
	close()
}

// Credentials secure the connections of a device (Config.Credentials).
type Credentials interface {
	// wrap makes a stream of a connected socket, which belongs to it from now on, also
	// after an error. It does not wait for a handshake: until that is over nothing is
	// received and there is no room, and if it fails readv and writev return the error. c
	// describes the connection.
	wrap(s socket, c conn) (stream, error)
}

// conn describes a connection to credentials.
type conn struct {
	dialed  bool         // by us; otherwise accepted
	self    wire.RawAddr // ours; the connid is the Q_Key
	peer    device.GID   // of the host at the other end of the socket
	peerQPN uint16       // that we dialed; 0 if accepted
	cfg     *Config      // Timeout, Clock, Logger

	ring    func()          // makes the shard call readv and writev. Any goroutine may call it
	running *sync.WaitGroup // of the stream's goroutines; Close of the queue pair waits for them
}

// secured are Credentials by certificates: streams over mutual TLS 1.3.
type secured struct {
	authority *jobcert.Authority // nil: own
	own       *jobcert.Credentials

	mu   sync.Mutex
	byQP map[wire.RawAddr]*jobcert.Credentials // of the authority
}

// JobSecret secures connections by certificates that processes with the same secret
// issue to themselves: it must be random, and at least jobcert.MinSecret bytes long.
func JobSecret(secret []byte) (Credentials, error) {
	a, err := jobcert.FromSecret(secret)
	if err != nil {
		return nil, err
	}
	return &secured{authority: a, byQP: map[wire.RawAddr]*jobcert.Credentials{}}, nil
}

// Certificates secures connections by certificates of the caller's: see
// jobcert.FromConfig. That of the other side must have the IP address that is its
// GID, or the URI of its raw address (jobcert.AddrURI).
func Certificates(cfg *tls.Config) (Credentials, error) {
	own, err := jobcert.FromConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &secured{own: own}, nil
}

// of returns the credentials of one of our queue pairs. Goroutines of streams call it,
// never a shard.
func (s *secured) of(self wire.RawAddr) (*jobcert.Credentials, error) {
	if s.authority == nil {
		return s.own, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byQP[self]; c != nil {
		return c, nil
	}
	c, err := s.authority.Credentials(self)
	if err != nil {
		return nil, err
	}
	if len(s.byQP) >= maxQP { // mostly of queue pairs that are gone
		clear(s.byQP)
	}
	s.byQP[self] = c
	return c, nil
}
