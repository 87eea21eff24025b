package settings_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/efactor/efactor/actors/settings"
)

// TestOrderBefore: each order makes the later kind wait for the earlier one, an atomic being a
// write and a read, and nothing makes messages and atomics wait for each other.
func TestOrderBefore(t *testing.T) {
	const s, w, r, a = settings.Sends, settings.Writes, settings.Reads, settings.Atomics
	for _, x := range []struct {
		o      settings.Order
		before [4]settings.Kinds // a send, a write, a read, an atomic
	}{
		{0, [4]settings.Kinds{}},
		{settings.SendAfterWrite, [4]settings.Kinds{w, 0, 0, 0}},
		{settings.SendAfterRead, [4]settings.Kinds{r, 0, 0, 0}},
		{settings.WriteAfterSend, [4]settings.Kinds{0, s, 0, 0}},
		{settings.WriteAfterWrite, [4]settings.Kinds{0, w | a, 0, w}},
		{settings.WriteAfterRead, [4]settings.Kinds{0, r | a, 0, r}},
		{settings.ReadAfterSend, [4]settings.Kinds{0, 0, s, 0}},
		{settings.ReadAfterWrite, [4]settings.Kinds{0, 0, w | a, w}},
		{settings.ReadAfterRead, [4]settings.Kinds{0, 0, r | a, r}},
		{settings.AllOrders, [4]settings.Kinds{w | r, s | w | r | a, s | w | r | a, w | r}},
	} {
		for i, before := range x.before {
			assert.Equal(t, before, x.o.Before(1<<i), "%v, kind %d", x.o, i)
		}
	}
	assert.Equal(t, "0", settings.Order(0).String())
	assert.Equal(t, "SendAfterWrite|WriteAfterWrite", (settings.SendAfterWrite | settings.WriteAfterWrite).String())
	assert.Len(t, settings.AllOrders.String(), len("SendAfterWrite|SendAfterRead|WriteAfterSend|WriteAfterWrite|WriteAfterRead|ReadAfterSend|ReadAfterWrite|ReadAfterRead"))
}
