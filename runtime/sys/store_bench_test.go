package sys_test

import (
	"sync/atomic"
	"testing"

	"github.com/efactor/efactor/runtime/sys"
)

// BenchmarkStoreRelease: a store that keeps behind earlier ones, beside the one of sync/atomic,
// which also keeps later loads behind it. Both write 64 words, as a batch of posts does.
func BenchmarkStoreRelease(b *testing.B) {
	var words [64]struct {
		word atomic.Uint64
		_    [56]byte // the words lie in lines of their own
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			for i := range words {
				sys.StoreRelease(&words[i].word, 1)
			}
		}
	})
	b.Run("sequential", func(b *testing.B) {
		for b.Loop() {
			for i := range words {
				words[i].word.Store(1)
			}
		}
	})
}
