package main

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// roleVar holds the role of a process that was started by this one, as JSON.
const roleVar = "EFACTOR_ATTACK_ROLE"

// role is what a process is to do.
type role struct {
	bounds
	Is     string // steady, mortal, victim, tcp, shm, launch; a command, or a child of one
	Device string // shm, tcp, tls or auto
	Dir    string // of shm
	Index  int    // among the legitimate processes
	Life   int    // how often it was started before
	QPN    uint16 // 0: any
	Seed   uint64
	For    time.Duration
	At     []efa.Address // of a foe's targets
	Pids   []int         // of a foe's targets
	Only   string        // a foe's attacks, by name; "": all
	Apart  bool          // in a network namespace of its own
	Resets bool          // connections are reset: operations among steady processes may fail
	Long   bool          // pauses may be longer than PeerTimeout
	Flat   bool          // say what is held
	N      int           // endpoints of a child that is started again
	Victim int           // its process, 0: none
	Prey   efa.Address   // the victim's
}

// card is how others reach a legitimate process.
type card struct {
	Index, Life int
	Is          string
	Address     efa.Address
	Memory      []byte // an efa.Remote
}

// order is what the conductor tells a legitimate process.
type order struct {
	Meet   *card    `json:",omitempty"`
	Stop   bool     `json:",omitempty"` // send no more
	Settle bool     `json:",omitempty"` // receive the rest: Expect
	Expect []gotLog `json:",omitempty"` // wait until as many have come, a while
	Close  bool     `json:",omitempty"`
	Dump   bool     `json:",omitempty"` // write what it waits for to stderr
	Do     string   `json:",omitempty"` // of a child of a trial
}

// news is what a process tells the conductor.
type news struct {
	Card    *card     `json:",omitempty"`
	Stopped bool      `json:",omitempty"`
	Sent    []sentLog `json:",omitempty"`
	Settled bool      `json:",omitempty"`
	Got     []gotLog  `json:",omitempty"`
	Broken  []int     `json:",omitempty"` // receives that failed with their sender, by its index
	Failed  *int      `json:",omitempty"` // the peer of this index
	Back    bool      `json:",omitempty"` // was stopped for long, and each peer has answered it since
	Closed  bool      `json:",omitempty"`
	Report  *report   `json:",omitempty"`
	Did     string    `json:",omitempty"` // of a child of a trial
	Number  uint64    `json:",omitempty"`
	Texts   []string  `json:",omitempty"`
	Row     *row      `json:",omitempty"` // of a conductor in a process of its own
}

// report is what a process measured.
type report struct {
	Ops         uint64
	Worst       time.Duration
	What        string // the worst was this
	Slow        []slow
	Faults      []fault
	Stall       time.Duration
	Stalls      []span
	Returns     uint64 // of peers that had failed
	Connections uint64 // of a foe, or attempts that it counts so
	Kinds       map[string]uint64
	Samples     []sample // of a steady process, where they are asked for
	Wrongs      []string
	More        int
}

// line writes news, one to a line.
type line struct {
	mu sync.Mutex
	to *json.Encoder
}

func newLine(w io.Writer) *line { return &line{to: json.NewEncoder(w)} }

func (l *line) say(n news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to.Encode(n) != nil {
		os.Exit(3) // the conductor is gone
	}
}

func (w *watch) report() *report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &report{Ops: w.ops, Worst: w.worst, What: w.what, Slow: w.slow, Faults: w.faults, Stall: w.stall, Stalls: w.stalls, Wrongs: w.wrongs, More: w.more}
}
