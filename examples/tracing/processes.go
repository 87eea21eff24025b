package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/efactor/efactor/examples/tracing/waterfall"
)

// first starts the second process, plays with it, and draws what both have seen.
func first(ctx context.Context, collector string) (err error) {
	dir, err := os.MkdirTemp("", "efactor-tracing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := open(ctx, "sender", dir, collector)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, "-second", dir, "-otlp", collector)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := p.meet(out, in); err != nil {
		return errors.Join(err, cmd.Wait())
	}
	if err := errors.Join(p.send(ctx), p.close(ctx)); err != nil {
		return errors.Join(err, in.Close(), cmd.Wait())
	}
	var theirs []waterfall.Span
	decode := json.NewDecoder(out)
	if err := errors.Join(decode.Decode(&theirs), cmd.Wait()); err != nil {
		return err
	}
	if collector != "" {
		fmt.Printf("the spans are at %s\n", collector)
		return nil
	}
	return waterfall.Draw(os.Stdout, append(p.drawn.Spans(), theirs...))
}

// second is the other process: it ends with its spans, as JSON.
func second(ctx context.Context, dir, collector string) error {
	p, err := open(ctx, "receiver", dir, collector)
	if err != nil {
		return err
	}
	if err := p.meet(os.Stdin, os.Stdout); err != nil {
		return err
	}
	if err := errors.Join(p.receive(ctx), p.close(ctx)); err != nil {
		return err
	}
	spans := []waterfall.Span{}
	if p.drawn != nil {
		spans = p.drawn.Spans()
	}
	return json.NewEncoder(os.Stdout).Encode(spans)
}
