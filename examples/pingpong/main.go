// Pingpong measures how long messages take between two processes, in the manner of
// libfabric's fi_pingpong.
//
//	go run ./examples/pingpong                  both processes on this host, over shared memory,
//	                                            1 B to 16 MiB, every byte checked
//	go run ./examples/pingpong -S 8 -I 10000    one size, for the figure
//	go run ./examples/pingpong -server          in one terminal,
//	go run ./examples/pingpong localhost        and in another
//
// It speaks fi_pingpong's control protocol, so that either side may be the tool,
// on a fabric that both can reach: fi_pingpong -p efa -f efa -e rdm, with the same -I, -S,
// -c and -m; or, without the protocol, -f efa-direct on both sides. Figures go to standard output, everything else to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/examples/pingpong/ctrl"
	"github.com/efactor/efactor/examples/pingpong/pp"
	"github.com/efactor/efactor/examples/pingpong/second"
)

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "pingpong: %v\n-h lists the flags\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // another signal ends it the hard way
	switch {
	case second.Is():
		signal.Ignore(os.Interrupt) // means the first process, which will end this one
		bound, cancel := second.Bound(ctx)
		defer cancel()
		err = o.play(bound, o.dial, io.Discard, io.Discard)
	case o.alone():
		err = o.playBoth(ctx)
	default:
		err = o.play(ctx, o.connect, os.Stdout, os.Stderr)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "pingpong: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "pingpong: %v\n", err)
		os.Exit(1)
	}
}

// connector gets the control connection to the partner.
type connector func(ctx context.Context, log io.Writer) (*ctrl.Conn, error)

// play plays with the partner that connect finds.
func (o *options) play(ctx context.Context, connect connector, out, log io.Writer) (err error) {
	side, err := pp.Open(ctx, o.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, side.Close()) }()
	info := side.Info()
	fmt.Fprintf(log, "pingpong: %v\n", info)
	conn, err := connect(ctx, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	table, line := pp.Table{Out: out}, progress{out: terminal(log), doing: side.Doing}
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	sum, stop := pp.Summary{Checked: o.Check}, line.start(ticker.C)
	err = side.Run(ctx, conn, func(r pp.Result) error {
		return line.apart(func() error {
			sum.Add(r)
			if o.json {
				return r.WriteJSON(out, info)
			}
			return table.Add(r)
		})
	})
	stop()
	if err == nil {
		fmt.Fprintf(log, "pingpong: %s\n", sum.Text(info))
	}
	return err
}

// connect is for one of two terminals.
func (o *options) connect(ctx context.Context, log io.Writer) (*ctrl.Conn, error) {
	if !o.server {
		return o.dial(ctx, log)
	}
	port := o.source
	if port == 0 {
		port = ctrl.DefaultPort
	}
	l, err := ctrl.Listen(ctx, o.network, "", port)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "pingpong: waiting for a client on port %d\n", l.Port())
	return l.Accept(ctx)
}

func (o *options) dial(ctx context.Context, _ io.Writer) (*ctrl.Conn, error) {
	return ctrl.Dial(ctx, o.network, o.host, o.port, o.source)
}

// playBoth plays with a second process of our own. That is the client.
func (o *options) playBoth(ctx context.Context) error {
	l, err := ctrl.Listen(ctx, ctrl.AnyIP, "127.0.0.1", 0)
	if err != nil {
		return err
	}
	defer l.Close()
	p, err := second.Start(append(o.set, "-P="+strconv.Itoa(l.Port()), "127.0.0.1"))
	if err != nil {
		return err
	}
	bound, cancel := p.Bind(ctx)
	accept := func(ctx context.Context, _ io.Writer) (*ctrl.Conn, error) { return l.Accept(ctx) }
	err = o.play(bound, accept, os.Stdout, os.Stderr)
	if err != nil {
		cancel() // it is not needed any more
	}
	failed := p.Wait(bound)
	cancel()
	if failed != nil && (err == nil || errors.Is(err, ctrl.ErrGone) || errors.Is(err, efa.ErrPeerFailed)) {
		return failed // which we only felt
	}
	return err
}
