package efatest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/model"
	"github.com/efactor/efactor/internal/testenv"
)

var (
	flagSeeds = flag.Int("seeds", 0, "how many seeds TestSeeds and TestReplay play; 0: a few seconds' worth")
	flagFirst = flag.Uint64("first", 1, "first of the seeds")
	flagSeed  = flag.String("seed", "", "the one seed to play, as a number")
	flagLog   = flag.String("eventlog", "", "file for the event log of -seed")
	flagQueue = flag.Bool("queued", false, "play -seed as TestSeedsQueued does, with every message in the ring of its shard")
)

// play runs a seed to its end and judges it.
func play(seed uint64, log io.Writer) (*run, error) { return playPlan(newPlan(seed), log) }

func playPlan(p *plan, log io.Writer) (*run, error) {
	r, err := newRun(p, log)
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	lists := make([][]task, len(r.cast))
	for _, t := range p.tasks {
		lists[t.from()] = append(lists[t.from()], t)
	}
	for _, n := range r.cast {
		r.sending++
		r.w.Go(fmt.Sprintf("tx %d", n.id), func(ctx context.Context) error { return n.sendAll(ctx, lists[n.id]) })
		r.w.Go(fmt.Sprintf("rx %d", n.id), n.recvAll)
	}
	if err := r.w.Run(); err != nil {
		r.over = true
		r.describe()
		return r, errors.Join(append([]error{err}, r.errs...)...)
	}
	if err := r.drain(); err != nil {
		return r, err
	}
	r.finish()
	r.judge()
	r.checkTold()
	r.checkRefused()
	return r, errors.Join(r.errs...)
}

// drain lets the last unacknowledged writes take effect.
func (r *run) drain() error {
	r.w.Go("drain", func(context.Context) error { return r.w.Sleep(drainTime) })
	return r.w.Run()
}

const drainTime = time.Millisecond

// describe logs where the endpoints of a world that has given up stand.
func (r *run) describe() {
	for _, n := range r.cast {
		stats, err := n.ep.Stats(context.Background())
		r.w.Logf("endpoint %d: loose %v, unordered %v, order %v", n.id, n.plan.loose, n.plan.cfg.Unordered, n.plan.cfg.Order)
		r.w.Logf("endpoint %d: %+v, depths %d %d, queues %d %d", n.id, n.plan.cfg.Protocol,
			n.plan.cfg.TxDepth, n.plan.cfg.RxDepth, n.plan.sendQ, n.plan.recvQ)
		seen := make(map[int]bool)
		for _, rc := range n.posted {
			if rc.Got != nil {
				seen[rc.Got.ID] = true
			} else if rc.Ended == 0 {
				r.w.Logf("endpoint %d: %v waits", n.id, &rc.Recv)
			}
		}
		for _, m := range r.msgs {
			if m.To == n.id && m.Order > 0 && !seen[m.ID] {
				r.w.Logf("endpoint %d: %v has not been received", n.id, &m.Msg)
			}
		}
		for _, k := range slices.Sorted(maps.Keys(stats)) {
			if stats[k] > 0 {
				r.w.Logf("endpoint %d: %s = %d", n.id, k, stats[k])
			}
		}
		if err != nil {
			r.w.Logf("endpoint %d: %v", n.id, err)
		}
	}
}

// judge compares the received messages with those sent.
func (r *run) judge() {
	for _, n := range r.cast {
		if n.doomed {
			continue
		}
		var msgs []*model.Msg
		for _, m := range r.msgs {
			if m.To == n.id && m.Order > 0 {
				if m.style == injected && r.cast[m.From].removed == n {
					m.Sure = false // its outcome is unknown
				}
				msgs = append(msgs, &m.Msg)
			}
		}
		var recvs []*model.Recv
		for _, rc := range n.posted {
			recvs = append(recvs, &rc.Recv)
		}
		check := model.Check
		if n.plan.cfg.Unordered {
			check = model.CheckUnordered
		}
		if err := check(msgs, recvs); err != nil {
			r.fail("endpoint %d: %w", n.id, err)
		}
	}
}

// less is a number of seeds: n, or in the short form fewer.
func less(n int) int {
	if testenv.Short() {
		return max(1, n/8)
	}
	return n
}

func replayLine(seed uint64) string {
	return fmt.Sprintf("go test ./api/efatest -run TestSeeds -seed %#x -v", seed)
}

func TestSeeds(t *testing.T) {
	if *flagSeed != "" {
		playOne(t)
		return
	}
	count := *flagSeeds
	if count == 0 {
		count = less(playSeeds)
	}
	var (
		next  atomic.Uint64
		mu    sync.Mutex
		total = make(map[string]uint64)
		wg    sync.WaitGroup
		bad   int
	)
	next.Store(*flagFirst)
	last := *flagFirst + uint64(count)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < last; seed = next.Add(1) - 1 {
				r, err := play(seed, nil)
				mu.Lock()
				if err != nil {
					if bad++; bad <= 10 {
						t.Errorf("seed %#x (%v): %v\nto replay: %s", seed, newPlan(seed), err, replayLine(seed))
					}
				} else {
					for name, v := range r.stats {
						total[name] += v
					}
				}
				stop := bad >= 100
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	if bad > 0 {
		t.Fatalf("%d of %d seeds failed", bad, count)
	}
	judgeCoverage(t, total, count)
}

// playOne replays a seed, with its event log.
func playOne(t *testing.T) {
	var seed uint64
	_, err := fmt.Sscanf(*flagSeed, "%v", &seed)
	require.NoError(t, err, "-seed %s", *flagSeed)
	var log bytes.Buffer
	var w io.Writer = &log
	if *flagLog != "" {
		f, err := os.Create(*flagLog)
		require.NoError(t, err)
		defer f.Close()
		w = f
	}
	p := newPlan(seed)
	p.compared, p.queued = *flagQueue, *flagQueue
	t.Logf("seed %#x: %v", seed, p)
	r, err := playPlan(p, w)
	if r != nil {
		t.Logf("%v of simulated time, %d messages", r.w.Elapsed(), len(r.msgs))
	}
	if err != nil {
		t.Logf("the end of the log (all of it: -eventlog FILE):\n%s", tail(log.Bytes(), 100))
	}
	require.NoError(t, err)
}

func tail(log []byte, lines int) []byte {
	i := len(log)
	for ; lines >= 0; lines-- {
		if i = bytes.LastIndexByte(log[:max(i, 0)], '\n'); i < 0 {
			break
		}
	}
	return log[i+1:]
}

// TestReplay plays seeds twice: the event logs must be the same to the byte.
func TestReplay(t *testing.T) {
	count := uint64(less(replaySeeds))
	if *flagSeeds > 0 {
		count = uint64(*flagSeeds)
	}
	for seed := *flagFirst; seed < *flagFirst+count; seed++ {
		var logs [2]bytes.Buffer
		for i := range logs {
			_, err := play(seed, &logs[i])
			require.NoError(t, err, "seed %#x", seed)
		}
		if !bytes.Equal(logs[0].Bytes(), logs[1].Bytes()) {
			a, b := bytes.Split(logs[0].Bytes(), []byte("\n")), bytes.Split(logs[1].Bytes(), []byte("\n"))
			for i := range min(len(a), len(b)) {
				require.Equal(t, string(a[i]), string(b[i]), "seed %#x, line %d of the log", seed, i+1)
			}
			require.Len(t, b, len(a), "lines of the log of seed %#x", seed)
		}
		require.Greater(t, logs[0].Len(), 1000)
	}
}
