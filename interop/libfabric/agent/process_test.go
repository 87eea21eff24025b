package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// lastWords is the input of a program that answers and ends at once.
type lastWords struct{ p *process }

func (w lastWords) Write(b []byte) (int, error) {
	w.p.answers <- "ok"
	close(w.p.dead)
	return len(b), nil
}

func (lastWords) Close() error { return nil }

// TestAnswerBeforeEnd: an answer counts also if the program has ended when it is read.
func TestAnswerBeforeEnd(t *testing.T) {
	for range 50 {
		p := &process{answers: make(chan string, 1), dead: make(chan struct{})}
		p.stdin = lastWords{p}
		_, err := p.call(t.Context(), "quit")
		require.NoError(t, err)
	}
}
