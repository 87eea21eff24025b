// Package death tries the death of a peer at every step of every subprotocol, in simulated
// time, and prints what came of it as a table:
//
//	go test ./internal/death -run TestDeathTable -v
//
// A play is one operation between two endpoints. It is played once without a fault, while
// the counters of both endpoints' machines are watched at each call to the device: that
// gives the steps, pairs of a state and an event of the tables of package ope, that the
// operation takes on either side. Then it is played again for each step, each side and each
// fault: the fault strikes that side exactly when the machine has taken that step.
//
// Afterwards every operation of a side that lives must have had one outcome, in time; what
// was reported as delivered must be there; nothing of the operation may be left in the
// endpoint; and it must be able to talk to another peer.
//
// Start reading at table_test.go; play_test.go has the plays, fault_test.go the faults,
// judge_test.go what must hold.
package death
