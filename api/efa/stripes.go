package efa

import "github.com/efactor/efactor/actors/ope"

// minStriped is from how many bytes on a read or write of memory goes over all paths of a
// kind that both hosts have.
const minStriped = 2 * ope.MinStripe

// twins reports whether two of the paths are of one kind.
func twins(paths []fabricPath) bool {
	for i := range paths {
		for j := range paths[:i] {
			if paths[i].scheme == paths[j].scheme {
				return true
			}
		}
	}
	return false
}

// stripes are the paths to the peer with a handle on which at names its memory, its own
// first: our first device of the kind leads to the peer's first, the second to the second,
// as far as both have them. nil: there are not several.
func (e *Endpoint) stripes(h uint64, at Remote) []ope.Stripe {
	x := e.cfg.AV.table.get(h)
	if x.age == 0 || x.all == nil || at.names == nil || len(*at.names) < 2 {
		return nil
	}
	f := e.dom.fab
	var ss []ope.Stripe
	theirs := x.all.paths
	for i := range f.paths {
		ours := &f.paths[i]
		if ours.scheme != f.paths[x.path].scheme {
			continue
		}
		for len(theirs) > 0 && theirs[0].scheme != ours.scheme {
			theirs = theirs[1:]
		}
		if len(theirs) == 0 {
			break
		}
		to := theirs[0].raw
		theirs = theirs[1:]
		name := at.exactly(to.GID())
		if name == nil || !ours.dev.Reaches(to.GID()) {
			continue
		}
		ss = append(ss, ope.Stripe{Path: uint8(i), To: to, Addr: name.addr + at.off, Key: name.key})
	}
	if len(ss) < 2 || ss[0].To != x.raw || ss[0].Path != x.path {
		return nil
	}
	return ss
}

// exactly is what the device with a GID calls the memory; nil: it is not known.
func (r Remote) exactly(gid GID) *remoteName {
	for i := range *r.names {
		if n := &(*r.names)[i]; n.gid == gid && n.addr+r.off >= n.addr && n.addr+r.off+r.n >= n.addr {
			return n
		}
	}
	return nil
}
