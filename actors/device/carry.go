package device

// Carry makes b the payload of an entry that has its header. It stays the caller's until the
// completion.
func (p *Pke) Carry(b []byte) {
	p.wr.Payload = b
	p.Bytes = len(b)
}

// Append copies b to the end of the payload, which is what Append made of it since Carry of
// nothing.
func (p *Pke) Append(b []byte) {
	if p.Bytes == 0 {
		p.bounce = p.bounce[:0]
	}
	p.bounce = append(p.bounce, b...)
	p.wr.Payload, p.Bytes = p.bounce, len(p.bounce)
}
