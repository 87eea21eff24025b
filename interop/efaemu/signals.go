//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// patience is how many signals of one kind a program may overhear.
const patience = 3

// passOn returns the signals for the program, and kills everything when one of
// those that ask for the end has come for the third time.
func passOn(kill func()) <-chan os.Signal {
	in := make(chan os.Signal, 8)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH} {
		if !signal.Ignored(s) {
			signal.Notify(in, s)
		}
	}
	out := make(chan os.Signal)
	go func() { // for the life of the process
		count := map[os.Signal]int{}
		for s := range in {
			switch s {
			case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
				if count[s]++; count[s] == patience {
					kill()
				}
			}
			if !typed(s) {
				out <- s
			}
		}
	}()
	return out
}

// typed reports whether a signal comes from the terminal, as far as that can be
// known: then the program, a process of the same group, has got it, too.
func typed(s os.Signal) bool {
	switch s {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGWINCH:
	default:
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
