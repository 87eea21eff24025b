//go:build linux

package kernel

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// maxEventFiles is how many channels a context may have, and async files: each
// takes a descriptor here as well as in the program.
const maxEventFiles = 256

// createChannel makes a completion channel. It lives until the program has closed
// it and no CQ uses it; that is looked for when the next one is made.
func (l *call) createChannel() unix.Errno {
	if !l.c.have {
		return unix.EINVAL
	}
	c, live := l.c, &l.c.dev.live.Channels
	if c.channels = c.sweep(c.channels, live); len(c.channels) >= maxEventFiles {
		return unix.EMFILE
	}
	f, e := newEventFile(l.task, func(fd int) unix.Errno {
		return l.outAll(abi.InvokeCoreOut, le.AppendUint32(nil, uint32(fd)))
	})
	if e != 0 {
		return e
	}
	c.channels = append(c.channels, f)
	c.dev.count(live)
	return 0
}

// allocAsync makes a file for asynchronous events.
func (l *call) allocAsync() unix.Errno {
	c, live := l.c, &l.c.dev.live.AsyncFiles
	if c.asyncs = c.sweep(c.asyncs, live); len(c.asyncs) >= maxEventFiles {
		return unix.EMFILE
	}
	f, e := newEventFile(l.task, func(fd int) unix.Errno {
		return l.putData(l.get(abi.AsyncEventFD), uint64(fd))
	})
	if e != 0 {
		return e
	}
	c.asyncs = append(c.asyncs, f)
	c.dev.count(live)
	return 0
}
