package echo

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSystems: each answers what it is asked, and ends when its input does.
func TestSystems(t *testing.T) {
	for _, s := range append(append([]System{}, Systems...), Actors...) {
		t.Run(s.Name, func(t *testing.T) {
			in, end := io.Pipe()
			addr, out := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- Serve(t.Context(), s.Name, in, out) }()
			text := make([]byte, 100)
			n, err := addr.Read(text)
			require.NoError(t, err)
			c, err := s.dial(t.Context(), string(text[:n-1]))
			require.NoError(t, err)
			for _, question := range []string{"question", "another1"} {
				answer, err := c.call(t.Context(), []byte(question))
				require.NoError(t, err)
				assert.Equal(t, question, string(answer))
			}
			if x, ok := c.(streamer); ok {
				for range 3 {
					require.NoError(t, x.stream(t.Context(), 1000, []byte("one way!")))
				}
			}
			require.NoError(t, c.close())
			require.NoError(t, end.Close())
			assert.NoError(t, <-ended)
		})
	}
}

func TestUnknown(t *testing.T) {
	require.ErrorIs(t, Serve(t.Context(), "pigeon", nil, nil), errUnknown)
	_, err := Ask(context.Background(), Plan{System: "pigeon"}, nil)
	require.ErrorIs(t, err, errUnknown)
}
