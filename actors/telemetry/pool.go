package telemetry

// pool keeps operations for use again, with the room for their events.
type pool struct{ list *op }

func (p *pool) get() *op {
	o := p.list
	if o == nil {
		return new(op)
	}
	p.list, o.newer = o.newer, nil
	return o
}

func (p *pool) put(o *op) {
	o.reset()
	o.newer, p.list = p.list, o
}
