// Package party is a scenario's view of an endpoint: libfabric's in another process
// (package agent) or efactor's in this one (package native). A scenario is written
// once, for two parties, and played with either in either role.
//
//	scenario ──Op──▶ Party ──Outcome──▶ scenario
//	                 │   │
//	    agent.Agent ─┘   └─ native.Node
//
// All data is a pattern that a seed determines: byte i is (i + seed) % 251. A party
// reports the seed of received data, and whether anything around it was touched; no
// byte needs to travel from one process to the other by another way.
//
// Start reading at party.go, then op.go.
package party
