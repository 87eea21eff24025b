package party

// Modulus of the pattern: byte i is (i + seed) % Modulus, so it is never Untouched.
const (
	Modulus   = 251
	Untouched = 0xff
	guard     = 64
)

// Fill writes the pattern into p, as if from bytes of the whole came before.
func Fill(p []byte, from, seed int) {
	v := (from + seed) % Modulus
	for i := range p {
		p[i] = byte(v)
		if v++; v == Modulus {
			v = 0
		}
	}
}

// Clear makes p untouched.
func Clear(p []byte) {
	for i := range p {
		p[i] = Untouched
	}
}

// mismatch is the first byte of p out of pattern, or -1.
func mismatch(p []byte, from, seed int) int {
	v := (from + seed) % Modulus
	for i, b := range p {
		if int(b) != v {
			return i
		}
		if v++; v == Modulus {
			v = 0
		}
	}
	return -1
}

// touched is the first byte of p that is not Untouched, or -1.
func touched(p []byte) int {
	for i, b := range p {
		if b != Untouched {
			return i
		}
	}
	return -1
}

// Inspect describes the contents of p.
func Inspect(p []byte) Content {
	c := Content{Seed: -1, Bad: -1, Over: -1}
	if len(p) == 0 {
		return c
	}
	if touched(p) < 0 {
		c.Untouched = true
		return c
	}
	c.Seed = int(p[0])
	c.Bad = mismatch(p, 0, c.Seed)
	return c
}

// Buffer is memory in pieces, with a guard around each.
type Buffer struct {
	mem    []byte
	Pieces [][]byte
}

// Room is how many bytes a Buffer needs.
func Room(size, pieces int) int { return size + guard*(pieces+1) }

// NewBuffer lays a buffer out in mem, which has Room for it.
func NewBuffer(mem []byte, size, pieces int) *Buffer {
	Clear(mem)
	b := &Buffer{mem: mem}
	at := guard
	for i := range pieces {
		n := size / pieces
		if i == pieces-1 {
			n = size - size/pieces*(pieces-1)
		}
		b.Pieces = append(b.Pieces, mem[at:at+n:at+n])
		at += n + guard
	}
	return b
}

// Fill writes the pattern.
func (b *Buffer) Fill(seed int) {
	done := 0
	for _, p := range b.Pieces {
		Fill(p, done, seed)
		done += len(p)
	}
}

// Inspect describes the first n bytes, and reports whether all others are
// untouched.
func (b *Buffer) Inspect(n int) Content {
	c := Content{Seed: -1, Bad: -1, Over: -1}
	done, at := 0, 0
	for _, p := range b.Pieces {
		used := min(max(n-done, 0), len(p))
		if used > 0 && c.Seed < 0 {
			c.Seed = int(p[0])
		}
		if used > 0 && c.Bad < 0 {
			if i := mismatch(p[:used], done, c.Seed); i >= 0 {
				c.Bad = done + i
			}
		}
		if i := touched(b.mem[at : at+guard]); i >= 0 && c.Over < 0 {
			c.Over = done + i
		}
		if i := touched(p[used:]); i >= 0 && c.Over < 0 {
			c.Over = done + used + i
		}
		at += guard + len(p)
		done += len(p)
	}
	if i := touched(b.mem[at : at+guard]); i >= 0 && c.Over < 0 {
		c.Over = done + i
	}
	if n > done && c.Bad < 0 {
		c.Bad = done
	}
	return c
}
