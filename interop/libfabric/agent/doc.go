// Package agent makes a real libfabric a party of scenarios: a C program that uses
// libfabric's public interface runs as a process of its own, and executes commands
// from its standard input. testdata/agent of interop/libfabric has its source, and
// PROTOCOL.md there the language.
//
//	command, err := agent.Build(ctx, in, "testdata/agent", dir) // in: package install
//	a, err := agent.Start(ctx, agent.Config{Command: command})
//	err = a.Open(ctx)
//	p, err := a.Start(ctx, party.Op{Kind: party.Send, Peer: peer, Size: 8})
//	out, err := p.Wait(ctx)
//
// The program may run under another one that gives it a device; Command says how.
//
// Start reading at process.go, then agent.go.
package agent
