// Package native makes an efactor endpoint of this process a party of scenarios. It
// uses package efa as any program does, on the shared-memory device of the fabric
// that the emulator is on as well, and has a tap around the device, so that a test
// sees every packet.
//
//	n, err := native.New(native.Config{Device: "shm:" + dir, Tap: recorder})
//	err = n.Open(ctx)
//	p, err := n.Start(ctx, party.Op{Kind: party.Send, Peer: peer, Size: 8})
//	out, err := p.Wait(ctx)
//
// Start reading at node.go, then requests.go.
package native
