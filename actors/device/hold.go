package device

import "github.com/efactor/efactor/wire"

// begins has the types of packets that begin something at the receiver. Of a message of
// several such packets it is the one with the first bytes.
var begins = func() (t [256]bool) {
	for i := range t {
		t[i] = wire.Type(i).IsREQ()
	}
	return t
}()
