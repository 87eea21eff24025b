package sysfs

import "strings"

const nodes = "devices/system/node"

// near is the NUMA node that all CPUs of this process lie on, or Unknown.
func (l *lister) near() int {
	mine := cpus()
	names, err := l.names(nodes, maxDevices)
	if err != nil || len(mine) == 0 {
		return Unknown
	}
	found := Unknown
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "node")
		if !ok {
			continue
		}
		id, err := number(digits, 0, 1<<16)
		if err != nil {
			continue
		}
		s, err := l.text(nodes + "/" + name + "/cpulist")
		if err != nil || !anyOf(mine, s) {
			continue
		}
		if found != Unknown {
			return Unknown // on several
		}
		found = id
	}
	return found
}

// anyOf reports whether one of the CPUs is in a list such as "0-3,8". What is not
// understood holds none.
func anyOf(cpus []int, list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		a, err1 := number(from, 0, 1<<20)
		b, err2 := number(to, 0, 1<<20)
		if err1 != nil || err2 != nil {
			continue
		}
		for _, c := range cpus {
			if a <= c && c <= b {
				return true
			}
		}
	}
	return false
}
