// Package check goes through what an EFA card can do, for examples/efacheck: each [Run] tries
// every ability once, on two queue pairs of one card, and compares the card's answers with
// those of the emulator (emulator.txt).
//
// An answer is what a card does: a status, an error, a limit. Times and rates are figures,
// which are printed and not compared. Start reading at Run.
package check
