package device

import "github.com/efactor/efactor/wire"

// begins has the types of packets that are of messages, which the receiver can put off.
var begins = func() (t [256]bool) {
	for i := range t {
		t[i] = wire.Type(i).HasMsgID() && wire.Type(i).IsREQ()
	}
	return t
}()
