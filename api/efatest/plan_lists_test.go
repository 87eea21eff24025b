package efatest_test

import "github.com/efactor/efactor/api/efa"

// Some accesses go between lists: what they move is cut into pieces that lie in one order here
// and in the same at the peer, but not in that of their addresses. For the model nothing is
// new: all of it is one write, or one read, with one outcome, and its data comes after all of
// its bytes.

// listed is of how many pieces the lists of an access are; 0: it has none.
func (a *access) listed() int {
	if a.slot == nil || a.wrong != right || a.n == 0 || a.style != posted && a.style != started || a.id%3 != 0 {
		return 0
	}
	return 2 + a.id/3%13
}

// lists cuts both sides of an access: with an odd id at the same places, else at different
// ones in the order of their addresses.
func (a *access) lists(r efa.Remote, b []byte) (here [][]byte, there []efa.Remote) {
	n := a.listed()
	if a.id%2 == 0 {
		return pieces(b, 1+a.id/2%5), remotePieces(r, a.n, n)
	}
	here, there = pieces(b, n), remotePieces(r, a.n, n)
	for i := range n {
		j := (i*a.id + a.id/7) % n
		here[i], here[j] = here[j], here[i]
		there[i], there[j] = there[j], there[i]
	}
	return here, there
}

// remotePieces cuts size bytes at r into n parts.
func remotePieces(r efa.Remote, size, n int) (list []efa.Remote) {
	for i := range n {
		from, to := size*i/n, size*(i+1)/n
		list = append(list, r.Slice(uint64(from), uint64(to-from)))
	}
	return list
}

// mayHear reports whether the target may be told that the write was of n bytes: one in pieces
// may go in several parts, of which the last has the data.
func (a *access) mayHear(n int) bool {
	if a.listed() > 0 || a.pieces > 1 {
		return n <= a.n && (n > 0 || a.n == 0)
	}
	return n == a.n
}
