package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/internal/freeport"
)

const toolName = "fi_pingpong"

// system is something to measure.
type system struct {
	name string
	// measure returns the microseconds of half a round trip.
	measure func(ctx context.Context, size, messages int) (float64, error)
}

// ours runs efactor's pingpong, which starts its second process itself.
func ours(program, mode string) func(context.Context, int, int) (float64, error) {
	return func(ctx context.Context, size, messages int) (float64, error) {
		cmd := exec.CommandContext(ctx, program, "-json", "-device", "shm", "-progress", mode,
			"-S", strconv.Itoa(size), "-I", strconv.Itoa(messages))
		out, err := versus.Output(cmd)
		if err != nil {
			return 0, err
		}
		var r struct {
			Time float64 `json:"usec/xfer"`
		}
		if err := json.Unmarshal(out, &r); err != nil || r.Time <= 0 {
			return 0, fmt.Errorf("unexpected result %q: %w", out, err)
		}
		return r.Time, nil
	}
}

// tool runs fi_pingpong's server and client.
func tool(ctx context.Context, size, messages int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a server without a client
	port, err := freeport.Find()
	if err != nil {
		return 0, err
	}
	args := []string{"-p", "shm", "-e", "rdm", "-S", strconv.Itoa(size), "-I", strconv.Itoa(messages)}
	server := exec.CommandContext(ctx, toolName, append(args, "-B", strconv.Itoa(port))...)
	var log bytes.Buffer
	server.Stderr = &log
	if err := server.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	for {
		select {
		case err := <-ended:
			return 0, fmt.Errorf("server: %w: %s", errors.Join(err, errEarly), log.String())
		default:
		}
		// The server needs a while until it listens, and cannot be asked: it
		// takes a single connection. A client without one ends at once.
		var out bytes.Buffer
		client := exec.CommandContext(ctx, toolName, append(args, "-P", strconv.Itoa(port), "127.0.0.1")...)
		client.Stdout = &out
		if err := client.Run(); err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			continue
		}
		if err := <-ended; err != nil {
			return 0, fmt.Errorf("server: %w: %s", err, log.String())
		}
		return parseTable(out.String())
	}
}

var errEarly = errors.New("it ended before the client could reach it")

// parseTable finds usec/xfer in fi_pingpong's two lines.
func parseTable(s string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) == 2 {
		heads, fields := strings.Fields(lines[0]), strings.Fields(lines[1])
		for i, h := range heads {
			if h == "usec/xfer" && i < len(fields) {
				return strconv.ParseFloat(fields[i], 64)
			}
		}
	}
	return 0, fmt.Errorf("no usec/xfer in %q", s)
}
