//go:build linux

package kernel

import (
	"golang.org/x/sys/unix"
)

// checkMaps checks the program's mappings of regions that it is about to lose. A
// kernel would have refused a wrong length and a private mapping (EINVAL); a
// mapping with more rights than necessary would let it damage the device's work.
func (c *Context) checkMaps(t Task, regions ...*region) {
	if t == nil || c.dev.cfg.Findings == nil {
		return
	}
	maps, err := t.Maps()
	if err != nil {
		return
	}
	for _, r := range regions {
		if r == nil {
			continue
		}
		for _, m := range maps {
			if overlaps(m, span{r.Key, r.Length}) {
				c.checkMap(m, r)
			}
		}
	}
}

func (c *Context) checkMap(m Mapping, r *region) {
	if m.Offset != r.Key || m.Length != r.Length {
		c.found("map-length", r.name, "%d bytes at %#x mapped, not %d at %#x", m.Length, m.Offset, r.Length, r.Key)
	}
	if !m.Shared {
		c.found("map-private", r.name, "the mapping at %#x is private", r.Key)
	}
	if m.Prot&unix.PROT_EXEC != 0 || m.Prot&^r.Prot != 0 {
		c.found("map-prot", r.name, "mapped with protection %d where %d is enough", m.Prot, r.Prot)
	}
}
