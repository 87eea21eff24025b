package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/api/launch"
)

// Config says how a process talks to others. Its zero value works. Codecs and names must agree
// between processes, the rest need not.
type Config struct {
	// Codecs are for messages that are no protobuf messages, or are to be encoded otherwise. The
	// first that takes a type has it.
	Codecs []Codec
	// Kinds are what others may spawn here, see Remote.Register.
	Kinds map[string]*actor.Props
	// Queue is how many bytes of messages wait for one process at most; 0: 4 MiB. A goroutine that sends more
	// waits, for Patience at most (0: 10 s), and then its message is a dead letter.
	Queue    int
	Patience time.Duration
	// Timeout is how long a process has to answer that is to be talked to, or to spawn without a
	// deadline; 0: 10 s. Messages wait meanwhile, and are dead letters after it.
	Timeout time.Duration
	// MaxMessage is how long an encoded message may be, in bytes; 0: 64 MiB. One that comes and is longer is
	// dropped, counted as malformed and logged.
	MaxMessage int
	// MaxAddresses is how many addresses of others are in use at most; 0: 65,536. PIDs that name
	// more are dead letters. One whose process is gone gives way to another.
	MaxAddresses int
	// Advertise is the host:port that PIDs of this process have, where others cannot use the one at which it
	// listens: 0.0.0.0 and [::] are addresses of nobody, and a container's may not be known outside. Others
	// ask there, so it must lead here. Port 0 is that at which it listens.
	Advertise string
	// Setup is the endpoint that Listen opens; nil: one on all devices of the host.
	Setup *efa.Setup
	// Resolve finds the endpoint of a process by the address in its PIDs; nil: the text of
	// an efa.Address is that, and host:port is asked there.
	Resolve func(ctx context.Context, address string) (efa.Address, error)

	pingEvery time.Duration
}

// pingEvery is how often a process asks the others whether they know it.
const pingEvery = 15 * time.Second

// errFull is why a message is a dead letter that found no room.
var errFull = fmt.Errorf("remote: the queue to the process is full")

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Start has an actor system talk to the other ranks of a group, over the group's endpoint. It comes
// before anything is spawned. The address of a rank is g.Addresses[rank].String(). Close the Remote
// before the group.
func Start(system *actor.ActorSystem, g *launch.Group) (*Remote, error) {
	return new(Config).Start(system, g.Endpoint)
}

// Start has an actor system talk over an endpoint that is enabled, and remains the caller's, as does its address
// vector: processes that have talked to this one stay in it. The
// process' address is the text of the endpoint's. Tagged messages whose tag begins with 0xAC are
// the Remote's.
func (c *Config) Start(system *actor.ActorSystem, ep *efa.Endpoint) (_ *Remote, err error) {
	defer errtext.Wrap("remote", "start", &err)
	return c.start(system, ep, ep.Address().String(), nil)
}

// Listen opens an endpoint, and has an actor system talk over it. At host:port others learn its
// address, so that is the process' address; it stays if the process ends and another one listens
// there. As on any port, a program that can listen there is the process; [efa.TCPConfig] says which
// may talk to it. At an unspecified address (0.0.0.0, [::], or no host) Config.Advertise says where others
// find it. Without a host:port the process' address is the text of the endpoint's, another one
// each time.
func (c *Config) Listen(ctx context.Context, system *actor.ActorSystem, hostport string) (_ *Remote, err error) {
	defer errtext.Wrap("remote", "listen at "+strconv.Quote(hostport), &err)
	if err := c.findable(hostport); err != nil {
		return nil, err
	}
	s := efa.Setup{Fabric: efa.Config{DeviceName: c.deviceAt(hostport)}}
	if c.Setup != nil {
		s = *c.Setup
	}
	ep, err := efa.OpenEndpoint(ctx, s)
	if err != nil {
		return nil, err
	}
	r, err := c.listen(ctx, system, ep, hostport)
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	return r, nil
}

func (c *Config) listen(ctx context.Context, system *actor.ActorSystem, ep *efa.Endpoint, hostport string) (*Remote, error) {
	if hostport == "" {
		return c.start(system, ep, ep.Address().String(), ep.Close)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", hostport)
	if err != nil {
		return nil, err
	}
	r, err := c.start(system, ep, c.advertised(l.Addr()), ep.Close)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	r.served.Go(func() {
		if err := ep.Serve(r.ctx, l); err != nil && r.ctx.Err() == nil {
			r.log.Error("remote: nobody learns the address any more", slog.Any("err", err))
		}
	})
	return r, nil
}

// findable refuses an address that others cannot use.
func (c *Config) findable(hostport string) error {
	if c.Advertise != "" {
		host, port, err := net.SplitHostPort(c.Advertise)
		switch _, bad := strconv.ParseUint(port, 10, 16); {
		case err != nil || bad != nil || isUnspecified(host):
			return fmt.Errorf("%w: Config.Advertise is %q: it is the host:port by which others find this process", efa.ErrInvalid, c.Advertise)
		case hostport == "":
			return fmt.Errorf("%w: Config.Advertise is %q, and Listen has no host:port that it could lead to", efa.ErrInvalid, c.Advertise)
		}
		return nil
	}
	if host, _, err := net.SplitHostPort(hostport); err == nil && isUnspecified(host) {
		return fmt.Errorf("%w: others cannot find an unspecified address: "+
			"listen at one of this host's, or set Config.Advertise to the host:port by which they reach this process", efa.ErrInvalid)
	}
	return nil
}

// isUnspecified reports whether a host is every address of this one, and so none for others.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

// advertised is the process' address where it listens at an address.
func (c *Config) advertised(at net.Addr) string {
	if c.Advertise == "" {
		return at.String()
	}
	host, port, _ := net.SplitHostPort(c.Advertise)
	if n, _ := strconv.ParseUint(port, 10, 16); n == 0 {
		_, port, _ = net.SplitHostPort(at.String())
	}
	return net.JoinHostPort(host, port)
}

// deviceAt is the device by which others reach who listens at host:port.
func (c *Config) deviceAt(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err == nil && isUnspecified(host) {
		if host, _, err = net.SplitHostPort(c.Advertise); err == nil && !isLocal(host) {
			return "auto" // an address of this host that is known by another name outside
		}
	}
	if ip, bad := netip.ParseAddr(host); err != nil || bad != nil || ip.IsLoopback() {
		return "auto"
	}
	return "auto:" + host
}

// isLocal reports whether an IP address is one of this host's.
func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	all, _ := net.InterfaceAddrs() // if they are not known, none is
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		n, err := netip.ParsePrefix(a.String())
		return err == nil && n.Addr().Unmap() == ip.Unmap()
	})
}

func (c *Config) start(system *actor.ActorSystem, ep *efa.Endpoint, name string, end func() error) (*Remote, error) {
	r := &Remote{
		system: system, root: actor.NewRootContext(system, nil), log: system.Logger(), ep: ep, close: end, cfg: *c, name: name, address: ep.Address(),
		codecs: newCodecs(c.Codecs),
	}
	r.names.init(r, end != nil && (c.Setup == nil || c.Setup.Endpoint.AV == nil))
	r.events.stream, r.events.log = system.EventStream, r.log
	r.greeters.r = r
	r.crew.r, r.crew.tasks = r, make(chan *link)
	setDefault(&r.cfg.Queue, 4<<20)
	setDefault(&r.cfg.Patience, 10*time.Second)
	setDefault(&r.cfg.Timeout, 10*time.Second)
	setDefault(&r.cfg.MaxMessage, 64<<20)
	setDefault(&r.cfg.MaxAddresses, 1<<16)
	setDefault(&r.cfg.pingEvery, pingEvery)
	for kind, props := range c.Kinds {
		r.Register(kind, props)
	}
	limits := ep.Domain().Limits()
	r.inject, r.turns.buf = limits.MaxInject, make([]byte, limits.MTU)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.begin(); err != nil {
		r.cancel()
		r.log.Error("remote: not started", slog.Any("err", err))
		return nil, err
	}
	return r, nil
}
