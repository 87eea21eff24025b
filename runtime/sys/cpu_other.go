//go:build !linux

package sys

// CPUSet is a set of CPUs by number, which nothing here fills.
type CPUSet [16]uint64

// IsSet reports whether cpu is in the set.
func (s *CPUSet) IsSet(cpu int) bool {
	return uint(cpu) < uint(64*len(s)) && s[cpu/64]>>(cpu%64)&1 != 0
}

// Set puts cpu into the set.
func (s *CPUSet) Set(cpu int) {
	if uint(cpu) < uint(64*len(s)) {
		s[cpu/64] |= 1 << (cpu % 64)
	}
}

// SchedGetaffinity fails: the system does not say.
func SchedGetaffinity(int, *CPUSet) error { return ErrUnsupported }

// SchedSetaffinity fails: threads run where the system likes.
func SchedSetaffinity(int, *CPUSet) error { return ErrUnsupported }
