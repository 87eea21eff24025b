package endpoint

import "fmt"

var eventNames = [...]string{
	0:                 "none",
	PeerFailed:        "peer failed",
	MemoryPressure:    "memory pressure",
	MemoryRelieved:    "memory relieved",
	DeviceFailed:      "device failed",
	NewPeer:           "new peer",
	AccessRefused:     "access refused",
	PeerPressure:      "peer pressure",
	PeerRelieved:      "peer relieved",
	RemoteWritten:     "remote written",
	RemoteServed:      "remote served",
	EnabledAgain:      "enabled again",
	BadPacket:         "bad packet",
	StrangersCrowded:  "strangers crowded",
	StrangersRelieved: "strangers relieved",
	PeerClosed:        "peer closed",
}

// String gives the name in small letters, "none" of 0.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}
