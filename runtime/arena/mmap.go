//go:build !race

package arena

import "github.com/efactor/efactor/runtime/sys"

func alloc(size, _ int) ([]byte, error) { return sys.Anonymous(size, size >= hugePage) }

func free(slab []byte) error { return sys.Unmap(slab) }
