package peer

// HostIDs are the host_ids of the peers that have sent one (§2.1.1), apart from their links:
// most send none. It belongs to the endpoint's shard.
type HostIDs map[*Link]uint64

// HostID is the host_id in the peer's HANDSHAKE, 0 if there was none.
func (l *Link) HostID() uint64 { return l.env.HostIDs[l] }

// noteHostID keeps what HANDSHAKE said.
func (l *Link) noteHostID(id uint64) {
	if l.env.HostIDs == nil {
		l.env.HostIDs = make(HostIDs)
	}
	l.env.HostIDs[l] = id
}

// ForgetHostID drops what is known of a peer that is stopped.
func (l *Link) ForgetHostID() { delete(l.env.HostIDs, l) }
