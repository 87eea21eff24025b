package endpoint

// assemble gives the endpoint's parts what they use of it and of each other. The matcher and
// the span are made on the shard: start passes them on.
func (e *Endpoint) assemble() {
	e.closing.e = e
	e.peers = peers{
		env: e.env, pools: e.pools, closing: &e.closing, book: e.cfg.Book,
		spawn: e.spawn, event: e.cfg.OnEvent, many: &e.many, most: e.env.Config.MaxStrangers,
	}
	e.peers.crowd.env, e.peers.crowd.peers = e.env, &e.peers
	e.peers.trials.peers = &e.peers
	e.peers.resting.most = restMost * e.peers.most
	e.access = access{
		refuse: e.cfg.Refuse,
		env:    e.env, pools: e.pools, regions: e.cfg.Regions, peers: &e.peers, closing: &e.closing, event: e.cfg.OnEvent,
	}
	e.claims = claims{env: e.env, pools: e.pools, closing: &e.closing, reject: e.reject, awaited: awaited{peers: &e.peers}}
	e.many = many{pools: e.pools, claims: &e.claims, end: e.end}
	e.writes = writes{
		env: e.env, peers: &e.peers, closing: &e.closing, deliver: e.cfg.OnWritten, room: e.cfg.WrittenRoom,
		counted: e.cfg.OnCounted,
	}
	e.pressure = pressure{env: e.env, peers: &e.peers, event: e.cfg.OnEvent}
}
