package endpoint

// assemble gives the endpoint's parts what they use of it and of each other. The matcher and
// the span are made on the shard: start passes them on.
func (e *Endpoint) assemble() {
	e.closing.e = e
	e.peers = peers{
		env: e.env, pools: e.pools, closing: &e.closing, book: e.cfg.Book,
		spawn: e.spawn, event: e.cfg.OnEvent, most: e.env.Config.MaxStrangers,
	}
	e.access = access{
		env: e.env, pools: e.pools, regions: e.cfg.Regions, peers: &e.peers, closing: &e.closing, event: e.cfg.OnEvent,
	}
	e.claims = claims{env: e.env, pools: e.pools, closing: &e.closing, reject: e.reject, awaited: awaited{peers: &e.peers}}
	e.writes = writes{
		env: e.env, peers: &e.peers, closing: &e.closing, deliver: e.cfg.OnWritten, room: e.cfg.WrittenRoom,
	}
	e.pressure = pressure{env: e.env, peers: &e.peers, event: e.cfg.OnEvent}
}
