package device

import "fmt"

// A driver that panics is not called again, but to close the queue pair: nobody knows in
// what state it is.

// brokenQP takes the place of its queue pair and refuses everything.
type brokenQP struct {
	QPBase
	qpn uint16
}

func (q brokenQP) QPN() uint16            { return q.qpn }
func (brokenQP) CreateAH(GID) (AH, error) { return 0, ErrClosed }
func (brokenQP) DestroyAH(AH) error       { return ErrClosed }
func (brokenQP) PostSend(*SendWR) error   { return ErrClosed }
func (brokenQP) RecvSlots() int           { return 0 }
func (brokenQP) RecvBytes(int) []byte     { return nil }
func (brokenQP) PostRecv([]int32)         {}
func (brokenQP) Doorbell()                {}
func (brokenQP) Poll([]Completion) int    { return 0 }
func (brokenQP) Arm() bool                { return true }
func (brokenQP) FDs() []int               { return nil }
func (brokenQP) Close() error             { return nil }

// Broken reports whether PostSend of the driver has panicked.
func (q *Queue) Broken() bool { return q.entered != q.left }

// Break ends the use of a driver that panicked.
func (q *Queue) Break() {
	if _, done := q.qp.(brokenQP); !done {
		q.broken, q.qp = q.qp, brokenQP{qpn: q.qp.QPN()}
	}
}

// Close closes the queue pair. A panic of the driver is an error.
func (q *Queue) Close() error {
	qp := q.qp
	if q.broken != nil {
		qp, q.broken = q.broken, nil
	}
	return Guard(qp.Close)
}

// Guard calls a driver, and returns a panic of it as an error.
func Guard(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("device: the driver panicked: %v", r)
		}
	}()
	return call()
}
