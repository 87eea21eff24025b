package efa

import (
	"context"
	"fmt"
)

// ReadN waits until there are n completions, and moves them to the beginning of dst; it never
// takes more than n. If it ends before, the error says why, as that of Read does, and those that
// it has taken by then, which are as many as it returns, are in dst. ErrInvalid: n is not
// from 1 to len(dst).
//
// n may be more than the queue's depth: ReadN takes completions as they come. Other readers
// wait meanwhile, but a TryRead may take some before ReadN does.
func (q *Queue) ReadN(ctx context.Context, dst []Completion, n int) (int, error) {
	if n < 1 || n > len(dst) {
		return 0, callError("read queue", fmt.Errorf("%w: %d completions into room for %d", ErrInvalid, n, len(dst)))
	}
	if err := q.readers.enter(ctx); err != nil {
		return 0, callError("read queue", err)
	}
	defer q.readers.leave()
	for got := 0; ; {
		k, err := q.read(ctx, dst[got:n])
		if got += k; err != nil || got == n {
			return got, err
		}
	}
}
