package shard

// Blame makes a panic from now on the failure of the actor who, and returns whose it
// would have been: for a handler that calls what another actor answers for. Shard only.
func (s *Shard) Blame(who Ref) (before Ref) {
	before = Ref{s.cur}
	s.cur = who.m
	return before
}

// Quiet tells whether no message is under way to an actor of the shard: what a handler
// does by a call then comes in the same order as if it had sent it as a message. Shard
// only.
func (s *Shard) Quiet() bool {
	// Without a cheap getg the shard's own messages are in its inbox.
	return s.ring.len()|s.sys.len()|s.replay.len() == 0 && (fastG || s.inbox.idle())
}
