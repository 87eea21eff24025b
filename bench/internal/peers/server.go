package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/internal/freeport"
)

var errEarly = errors.New("it ended before the client could reach it")

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
	port, err := freeport.Find()
	if err != nil {
		cancel()
		return "", err
	}
	text := strconv.Itoa(port)
	server := exec.CommandContext(ctx, t.name, t.server(text)...)
	var log bytes.Buffer
	server.Stdout, server.Stderr, server.Env = &log, &log, append(server.Environ(), t.env...)
	if err := server.Start(); err != nil {
		cancel()
		return "", err
	}
	ended := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		ended <- server.Wait()
		close(over)
	}()
	defer func() {
		cancel() // ends a server without a client
		<-over
	}()
	for {
		// The server needs a while until it listens, and cannot be asked: it
		// takes a single connection. A client without one ends at once.
		client := exec.CommandContext(ctx, t.name, t.client(text)...)
		client.Env = append(client.Environ(), t.env...)
		out, failure := versus.Output(client)
		if failure == nil {
			if err := <-ended; err != nil {
				return "", fmt.Errorf("server: %w: %s", err, log.Bytes())
			}
			return string(out), nil
		}
		select {
		case err := <-ended:
			return "", fmt.Errorf("server: %w: %s; client: %w", errors.Join(err, errEarly), log.Bytes(), failure)
		case <-ctx.Done():
			return "", fmt.Errorf("%w; client: %w", ctx.Err(), failure)
		default:
		}
	}
}
