// Package model computes what an endpoint may have received: the rules of matching
// (posted receives in the order of posting, messages of one sender in the order of
// sending, wildcards, ignore masks, directed receives) applied to a record of the
// programs' calls and completions.
//
// The order in which messages of different senders arrive is the network's, so
// several outcomes may be legal. Check applies rules that hold in every one of
// them: each message at most once, intact, to a receive that takes it; and of two
// receives that both take a message, not the later one, unless the earlier one had
// been used by then.
package model
