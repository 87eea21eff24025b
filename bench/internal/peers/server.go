package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/runtime/clock"
)

var errEarly = errors.New("the server ended before a client could reach it")

// tool is a program that is started as a server and as a client.
type tool struct {
	name string
	env  []string
	// server and client are the arguments with a port.
	server, client func(port string) []string
}

// run gives the client's output.
func (t *tool) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	port, err := freeport.Find()
	if err != nil {
		return "", err
	}
	text := strconv.Itoa(port)
	var log bytes.Buffer
	server := t.command(ctx, t.server(text))
	server.Stdout, server.Stderr = &log, &log
	if err := versus.Start(server); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	var status error
	go func() {
		status = versus.Wait(server)
		close(ended)
	}()
	out, err := t.call(ctx, port, ended)
	if err != nil {
		cancel() // ends a server without a client
	}
	<-ended
	if err = errors.Join(status, err); err != nil {
		return "", fmt.Errorf("%w; the server: %s", err, log.Bytes())
	}
	return string(out), nil
}

func (t *tool) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.name, args...)
	cmd.Env = append(cmd.Environ(), t.env...)
	return cmd
}

// call runs the client when the server listens. It cannot be asked, as it takes a single
// connection, and a client that comes too early ends at once: where the kernel does not say
// who listens, clients are started until one succeeds, with pauses that grow.
func (t *tool) call(ctx context.Context, port int, ended <-chan struct{}) ([]byte, error) {
	var failure error
	for pause := time.Millisecond; ; pause = min(2*pause, mostPause) {
		if is, known := versus.Listening(port); is || !known {
			var out []byte
			if out, failure = versus.Output(t.command(ctx, t.client(strconv.Itoa(port)))); failure == nil {
				return out, nil
			}
		}
		timer := clock.NewTimer(pause)
		select {
		case <-timer.C:
			continue
		case <-ended:
			failure = errors.Join(failure, errEarly)
		case <-ctx.Done():
			failure = errors.Join(failure, ctx.Err())
		}
		timer.Stop()
		return nil, failure
	}
}

const mostPause = 50 * time.Millisecond
