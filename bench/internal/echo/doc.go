// Package echo has the peers of "request and reply" that are Go libraries: each has a
// server that answers what it is sent, and a client that asks and waits for the answer.
//
// A server runs in a process of its own ([Serve]); [Ask] starts it, by the program that
// it is part of, and does the asking.
package echo
