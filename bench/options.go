package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/efactor/efactor/api/efa"
)

const usage = `usage: bench [flags]
       bench -merge [-cases REGEXP] FILE...

Measures efactor beside its peers, in turns, and prints how they compare.

  -short          fewer cases, rounds and operations: less than 2 minutes
  -cases REGEXP   those whose names match, such as latency/shm or /8B$   (all)
  -list           name the cases, and what they are measured with, and end
  -rounds N       of every system in each case
                  (0: 5, or 3 with -short and in cases beside the main ones)
  -time D         that a run's operations take (0s: 150ms, or 50ms with -short)
  -limit D        no case begins later (0s: 14m, or 1m45s with -short)
  -progress MODE  efactor's: auto, manual or pinned
                  (as the case has it: manual where processes spin, else auto)
  -json           one object a line instead of the table
  -png DIR        plots of latency and bandwidth over the size, too
  -merge          measure nothing; print what the runs came to whose -json the files
                  have: the figures to reach, and tables, in Markdown
`

// options are the flags.
type options struct {
	short, list, json bool
	merge             bool
	allRounds         bool     // -rounds was given, and is for all cases
	files             []string // to merge
	cases             *regexp.Regexp
	rounds            int
	time, limit       time.Duration
	progress, png     string
	job               string // how the program starts itself
}

// parse reads the command line. The error is flag.ErrHelp if help was asked for.
func parse(args []string) (*options, error) {
	o := new(options)
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&o.short, "short", false, "")
	fs.BoolVar(&o.list, "list", false, "")
	fs.BoolVar(&o.json, "json", false, "")
	fs.BoolVar(&o.merge, "merge", false, "")
	cases := fs.String("cases", "", "")
	fs.IntVar(&o.rounds, "rounds", 0, "")
	fs.DurationVar(&o.time, "time", 0, "")
	fs.DurationVar(&o.limit, "limit", 0, "")
	fs.StringVar(&o.progress, "progress", "", "")
	fs.StringVar(&o.png, "png", "", "")
	fs.StringVar(&o.job, "job", "", "")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.files = fs.Args(); o.merge != (len(o.files) > 0) {
		return nil, fmt.Errorf("arguments %q: -merge has files, and nothing else has", o.files)
	}
	if o.rounds < 0 || o.time < 0 || o.limit < 0 {
		return nil, errors.New("-rounds, -time and -limit are not below 0")
	}
	o.allRounds = o.rounds > 0
	o.fill()
	var err error
	if o.cases, err = regexp.Compile(*cases); err != nil {
		return nil, fmt.Errorf("-cases: %w", err)
	}
	if o.progress != "" {
		_, err = efa.ParseProgress(o.progress)
	}
	return o, err
}

// fill sets what was not given.
func (o *options) fill() {
	rounds, time, limit := 5, 150*time.Millisecond, 14*time.Minute
	if o.short {
		rounds, time, limit = shortRounds, shortTime, shortLimit
	}
	if o.rounds == 0 {
		o.rounds = rounds
	}
	if o.time == 0 {
		o.time = time
	}
	if o.limit == 0 {
		o.limit = limit
	}
}

const (
	shortRounds = 3
	shortTime   = 50 * time.Millisecond
	shortLimit  = 105 * time.Second
)
