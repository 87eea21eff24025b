package engine

// fifo is a queue. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) {
	if f.head > 0 && len(f.items) == cap(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

// front is the oldest. Preconditions: there is one.
func (f *fifo[T]) front() T { return f.items[f.head] }

// pop takes the oldest away.
func (f *fifo[T]) pop() (v T, ok bool) {
	if f.len() == 0 {
		return v, false
	}
	var none T
	v, f.items[f.head] = f.items[f.head], none
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return v, true
}

// unpop puts back what was popped last.
func (f *fifo[T]) unpop(v T) {
	if f.head == 0 {
		f.items = append([]T{v}, f.items...)
		return
	}
	f.head--
	f.items[f.head] = v
}
