// Stream measures throughput: posted messages with a window of outstanding sends, one way
// or both, beside libfabric's shm provider and MPICH in the same run, round by round.
//
//	go run ./stream                                    8 B to 1 MiB over shm
//	go run ./stream -sizes 8 -tagged -bidir -mem alloc,plain
//	go run ./stream -device tcp                        or sim, which is one process
//	go run ./stream -peers= -rounds 1 -sizes 8 -time 3s -cpuprofile cpu
//
// README.md of the module says what is measured and how.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch/local"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/contest"
	"github.com/efactor/efactor/bench/stream/flow"
)

func main() {
	c := contest.Config{Out: os.Stdout, Log: os.Stderr}
	sizes := flag.String("sizes", "8,64,512,4k,16k,64k,256k,1m", "`list` of message sizes: bytes, k and m allowed")
	mem := flag.String("mem", "alloc", "`list` of efactor's buffers: alloc (memory of the domain), plain (Go's)")
	peers := flag.String("peers", strings.Join(contest.Peers, ","), "`list` of what to compare with; empty: nothing")
	plan := flag.String("plan", "", "a `plan` of package flow to do once, as JSON: how the program starts itself")
	flag.IntVar(&c.Plan.Window, "window", 64, "`sends` outstanding")
	flag.IntVar(&c.Plan.Batch, "batch", 0, "`messages` that the receiver answers together (default: 4 windows)")
	flag.IntVar(&c.Plan.Buffers, "buffers", 0, "`buffers` used in turn; 1: always the same (default: a window of them)")
	flag.BoolVar(&c.Plan.Tagged, "tagged", false, "tagged messages (MPI's always are)")
	flag.BoolVar(&c.Plan.Both, "bidir", false, "both ways at once; figures are of both together")
	flag.IntVar(&c.Count, "count", 0, "`messages` of a run (default: as many as take -time)")
	flag.DurationVar(&c.Time, "time", 300*time.Millisecond, "of a run, about, if there is no -count")
	flag.IntVar(&c.Rounds, "rounds", 7, "`times` that each system runs at each size")
	flag.StringVar(&c.Device, "device", "shm", "what Config.DeviceName takes; sim: both sides in one process")
	flag.StringVar(&c.Progress, "progress", "auto", "auto, manual or pinned")
	flag.StringVar(&c.CPUProfile, "cpuprofile", "", "profiles of efactor's last run, to `file`.RANK")
	flag.BoolVar(&c.JSON, "json", false, "JSON instead of the table")
	flag.Parse()
	if *plan != "" {
		local.Main(2, func(ctx context.Context) error { return one(ctx, &c, *plan) })
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := complete(&c, *sizes, *mem, *peers)
	if err == nil {
		err = c.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
}

// complete fills in what depends on other flags, and checks them.
func complete(c *contest.Config, sizes, mem, peers string) (err error) {
	if c.Sizes, err = versus.ParseSizes(sizes); err != nil {
		return err
	}
	if c.Mem, err = listOf(mem, []string{"alloc", "plain"}); err != nil {
		return err
	}
	if c.Peers, err = listOf(peers, contest.Peers); err != nil {
		return err
	}
	if len(c.Mem) == 0 || c.Rounds < 1 || c.Time <= 0 || c.Count < 0 {
		return fmt.Errorf("nothing to do: -mem %q, %d rounds of %v or %d messages", mem, c.Rounds, c.Time, c.Count)
	}
	if c.Plan.Batch == 0 {
		c.Plan.Batch = 4 * max(c.Plan.Window, 1) // Check says what is wrong
	}
	if c.Plan.Buffers == 0 {
		c.Plan.Buffers = c.Plan.Window
	}
	p := c.Plan
	p.Messages(1)
	if err := p.Check(); err != nil {
		return err
	}
	if c.Self, err = os.Executable(); err != nil {
		return err
	}
	_, err = efa.ParseProgress(c.Progress)
	return err
}

// listOf reads a list of known words.
func listOf(text string, known []string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	list := strings.Split(text, ",")
	for _, word := range list {
		if !slices.Contains(known, word) {
			return nil, fmt.Errorf("%q: want some of %q", text, known)
		}
	}
	return list, nil
}

// one does a plan as one of two processes; rank 0 writes the result.
func one(ctx context.Context, c *contest.Config, text string) error {
	var p flow.Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	mode, err := efa.ParseProgress(c.Progress)
	if err != nil {
		return err
	}
	s, err := flow.Open(ctx, c.Device, mode)
	if err != nil {
		return err
	}
	defer s.Close()
	if c.CPUProfile != "" {
		stop, err := versus.Profile(fmt.Sprintf("%s.%d", c.CPUProfile, s.Rank))
		if err != nil {
			return err
		}
		defer stop()
	}
	res, err := s.Run(ctx, p)
	if err != nil || s.Rank != 0 {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}
