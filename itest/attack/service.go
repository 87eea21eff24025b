package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/api/remote"
	"github.com/efactor/efactor/runtime/clock"
)

// service is a legitimate process above the device: it answers what comes by connections, and by
// messages to its actor.
type service struct {
	l       *efanet.Listener
	system  *actor.ActorSystem
	r       *remote.Remote
	ep      *efa.Endpoint // of r, if that has no port
	serving sync.WaitGroup
}

const (
	echoActor = "echo"
	sinkActor = "sink" // takes messages and says nothing
	slowActor = "slow" // the same, slowly and with a mailbox that is soon full
)

func quiet() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
}

// openService opens one. hostport is where others ask for its addresses; "" if they know them.
func openService(ctx context.Context, s efa.Setup, hostport string) (_ *service, err error) {
	v := &service{system: quiet()}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	l, err := (&efanet.ListenConfig{Setup: &s}).Listen(ctx, hostport)
	if err != nil {
		return nil, err
	}
	v.l = l.(*efanet.Listener)
	v.serving.Go(v.serve)
	if hostport != "" {
		v.r, err = (&remote.Config{Setup: &s}).Listen(ctx, v.system, hostport)
	} else if v.ep, err = efa.OpenEndpoint(ctx, s); err == nil {
		v.r, err = new(remote.Config).Start(v.system, v.ep)
	}
	if err != nil {
		return nil, err
	}
	taking := actor.PropsFromFunc(func(actor.Context) {})
	slowly := actor.PropsFromFunc(func(actor.Context) { _ = pause(context.Background(), time.Millisecond) }, actor.WithMailbox(actor.Bounded(16)))
	for name, props := range map[string]*actor.Props{echoActor: echoing, sinkActor: taking, slowActor: slowly} {
		if _, err = v.system.Root.SpawnNamed(props, name); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// echoing is an actor that answers.
var echoing = actor.PropsFromFunc(func(c actor.Context) {
	if _, ok := c.Message().(*actor.Touch); ok {
		c.Respond(&actor.Touched{})
	}
})

// serve answers all connections with what they say.
func (v *service) serve() {
	for {
		c, err := v.l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			_ = pause(context.Background(), time.Millisecond)
			continue
		}
		v.serving.Go(func() {
			_, _ = io.Copy(c, c) // it ends with the other side
			_ = c.Close()
		})
	}
}

func (v *service) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if v.r != nil {
		err = v.r.Close(ctx)
	}
	if v.ep != nil {
		err = errors.Join(err, v.ep.Close())
	}
	if v.l != nil {
		err = errors.Join(err, v.l.Close())
	}
	v.system.Shutdown()
	return err
}

// client is another legitimate process, which uses the service.
type client struct {
	dialer *efanet.Dialer
	kept   net.Conn // open all the time; nil: none
	system *actor.ActorSystem
	r      *remote.Remote
	ep     *efa.Endpoint
}

func openClient(ctx context.Context, s efa.Setup) (c *client, err error) {
	c = &client{dialer: &efanet.Dialer{Setup: &s}, system: quiet()}
	if c.ep, err = efa.OpenEndpoint(ctx, s); err == nil {
		c.r, err = new(remote.Config).Start(c.system, c.ep)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *client) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if c.kept != nil {
		err = c.kept.Close()
	}
	if c.r != nil {
		err = errors.Join(err, c.r.Close(ctx))
	}
	if c.ep != nil {
		err = errors.Join(err, c.ep.Close())
	}
	c.system.Shutdown()
	return err
}

// keep opens the connection that stays.
func (c *client) keep(ctx context.Context, address string) (err error) {
	if c.kept, err = c.dialer.Dial(ctx, address); err == nil {
		err = exchange(ctx, c.kept)
	}
	return err
}

// once opens a connection, uses it, and closes it.
func (c *client) once(ctx context.Context, address string) error {
	conn, err := c.dialer.Dial(ctx, address)
	if err != nil {
		return err
	}
	return errors.Join(exchange(ctx, conn), conn.Close())
}

var errEcho = errors.New("other bytes came back")

// exchange has a few bytes go there and back. An error here ends the connection's use.
func exchange(ctx context.Context, c net.Conn) error {
	until, _ := ctx.Deadline()
	if err := c.SetDeadline(until); err != nil {
		return err
	}
	b, back := []byte("there and back"), make([]byte, 14)
	if _, err := c.Write(b); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, back); err != nil {
		return err
	}
	if !bytes.Equal(b, back) {
		return fmt.Errorf("%w: %q", errEcho, back)
	}
	return nil
}

// ask sends the service's actor a message, and waits for the answer.
func (c *client) ask(ctx context.Context, address string) error {
	until, _ := ctx.Deadline()
	f := c.system.Root.RequestFuture(actor.NewPID(address, echoActor), &actor.Touch{}, until.Sub(clock.Wall()))
	_, err := f.Result()
	return err
}

// spawn spawns an actor at the service, and stops it.
func (c *client) spawn(ctx context.Context, address string) error {
	pid, err := c.r.Spawn(ctx, address, "echo")
	if err == nil {
		c.system.Root.Stop(pid)
	}
	return err
}
