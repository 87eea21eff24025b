// Package tcp is a device driver for hosts without EFA: queue pairs that reach each
// other over TCP.
package tcp
