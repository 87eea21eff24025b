package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/efactor/efactor/actors/device/tcp/jobcert"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/api/launch/internal/rendezvous"
)

// Job is this process as a member of a job, with a board for byte strings and without
// an endpoint, for programs that open their own. It must not be used by several
// goroutines at a time.
type Job struct {
	Rank, Size           int
	LocalRank, LocalSize int
	// Launcher describes the launcher for people: "hydra: PMI-1 on descriptor 5".
	Launcher string

	at       carrier
	env      *environment
	stays    bool
	hosts    int      // that the ranks are on
	names    []string // of the ranks, for errors and logs
	gathered int
	closed   bool
}

// Join finds the launcher of this process and meets the other ranks. All ranks must call
// it, and then Fence and Allgather in the same order. cfg.Timeout is for Join alone;
// later calls have contexts of their own.
func Join(ctx context.Context, cfg Config) (_ *Job, err error) {
	defer errtext.Wrap("launch", "join", &err)
	e, err := cfg.resolve()
	if err != nil {
		e.breakOff(ctx)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	return e.meet(ctx)
}

func (e *environment) meet(ctx context.Context) (*Job, error) {
	p, err := e.find()
	if err != nil {
		return nil, err
	}
	e.cfg.Logger.Debug("launch: found", "launcher", p.launcher)
	at, err := p.join(ctx, e, p)
	if err != nil {
		return nil, public(p.launcher, err)
	}
	j := &Job{
		Rank: p.rank, Size: p.size, LocalRank: p.localRank, LocalSize: p.localSize,
		Launcher: p.launcher, at: at, env: e, stays: p.stays,
	}
	if err := j.greet(ctx, p); err != nil {
		_ = j.Close() // the first error is the cause
		return nil, err
	}
	level := slog.LevelDebug // one of them is sufficient
	if j.Rank == 0 {
		level = slog.LevelInfo
	}
	e.cfg.Logger.Log(ctx, level, "launch: all ranks have met", "launcher", j.Launcher, "rank", j.Rank, "size", j.Size,
		"local rank", j.LocalRank, "local size", j.LocalSize)
	return j, nil
}

// joinRendezvous meets the others where rank 0 is.
func joinRendezvous(ctx context.Context, e *environment, p *place, addr string) (carrier, error) {
	cfg := rendezvous.Config{
		Rank: p.rank, Size: p.size, Job: e.cfg.Job, Addr: addr, Insecure: e.cfg.Insecure, Logger: e.cfg.Logger,
		Left: p.left,
	}
	if len(e.cfg.Secret) > 0 {
		a, err := jobcert.FromSecret(e.cfg.Secret)
		if err != nil {
			return nil, bad("job secret: %w", err)
		}
		if cfg.Server, cfg.Client, err = a.Launch(); err != nil {
			return nil, err
		}
	}
	if p.rank == 0 {
		var err error
		if cfg.Listener, err = e.inherited(); err != nil {
			return nil, err
		}
	}
	b, err := rendezvous.Join(ctx, cfg)
	if err != nil { // else a nil *Board would be a carrier
		if cfg.Listener != nil {
			_ = cfg.Listener.Close() // as a rule it is closed already
		}
		return nil, err
	}
	return b, nil
}

// Put puts a value of at most 64 KiB on the board. Others see it after the next Fence; a
// key is put once, by one rank. Keys are 1 to 32 letters, digits, '.', '-' and '_'.
func (j *Job) Put(ctx context.Context, key string, value []byte) (err error) {
	defer errtext.Wrap("launch", "put", &err)
	return j.put(ctx, "u."+key, value)
}

// Get returns a value that a rank put before the last Fence.
func (j *Job) Get(ctx context.Context, key string) (_ []byte, err error) {
	defer errtext.Wrap("launch", "get", &err)
	return j.value(ctx, "u."+key)
}

// Fence waits until all ranks have called it.
func (j *Job) Fence(ctx context.Context) (err error) {
	defer errtext.Wrap("launch", "fence", &err)
	if j.closed {
		return public(j.Launcher, net.ErrClosed)
	}
	return public(j.Launcher, j.at.Fence(ctx))
}

// Allgather returns the values of all ranks, indexed by rank. All must call it.
func (j *Job) Allgather(ctx context.Context, value []byte) (_ [][]byte, err error) {
	defer errtext.Wrap("launch", "allgather", &err)
	n := j.gathered
	j.gathered++
	key := func(rank int) string { return fmt.Sprintf("g%d.%d", n, rank) }
	if err := j.put(ctx, key(j.Rank), value); err != nil {
		return nil, err
	}
	if err := j.Fence(ctx); err != nil {
		return nil, err
	}
	all := make([][]byte, j.Size)
	for r := range all {
		v, err := j.value(ctx, key(r))
		if err != nil {
			return nil, err
		}
		all[r] = v
	}
	return all, nil
}

func (j *Job) put(ctx context.Context, key string, value []byte) error {
	if j.closed {
		return public(j.Launcher, net.ErrClosed)
	}
	if err := board.Check(key, len(value)); err != nil {
		return err
	}
	return public(j.Launcher, j.at.Put(ctx, key, value))
}

func (j *Job) value(ctx context.Context, key string) ([]byte, error) {
	if j.closed {
		return nil, public(j.Launcher, net.ErrClosed)
	}
	v, ok, err := j.at.Get(ctx, key)
	if err != nil {
		return nil, public(j.Launcher, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNoKey, key)
	}
	return v, nil
}

// Abort informs the other ranks that this one gives up, and why, and closes the job.
// Over PMI the launcher then ends all processes, this one included.
func (j *Job) Abort(reason error) {
	if j.closed {
		return
	}
	j.closed = true
	j.at.Abort(reason.Error())
}

// Close signs off at the others and at the launcher. It may be called again. A rank that
// still waits for this one gets an error.
func (j *Job) Close() (err error) {
	defer errtext.Wrap("launch", "close", &err)
	if j.closed {
		return nil
	}
	j.closed = true
	return j.at.Close()
}

// Prefixes of share's texts: success, or failure with the text as reason.
const (
	wentWell = "1 "
	wentBad  = "0 "
)

// share is Allgather of texts, in which a rank may have an error instead. Then all ranks
// get an error: that of the lowest of those ranks, or their own.
func (j *Job) share(ctx context.Context, text string, failed error) ([]string, error) {
	value := wentWell + text
	if failed != nil {
		s := errtext.Cause(failed)
		value = wentBad + s[:min(len(s), 1000)]
	}
	all, err := j.Allgather(ctx, []byte(value))
	if failed != nil { // whether or not the others could be informed
		return nil, fmt.Errorf("launch: %w", failed)
	}
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(all))
	for r, b := range all {
		s, ok := strings.CutPrefix(string(b), wentWell)
		if !ok {
			reason := strings.TrimPrefix(string(b), wentBad)
			return nil, fmt.Errorf("launch: %w", &RankError{Rank: r, Reason: fmt.Sprintf("rank %d failed: %s", r, strconv.Quote(reason))})
		}
		texts[r] = s
	}
	return texts, nil
}

func itoa(n int) string { return strconv.Itoa(n) }

// alone is the board of the only rank.
type alone map[string][]byte

func joinAlone(context.Context, *environment, *place) (carrier, error) { return alone{}, nil }

func (a alone) Put(_ context.Context, key string, value []byte) error {
	if err := board.Check(key, len(value)); err != nil {
		return err
	}
	a[key] = append([]byte(nil), value...)
	return nil
}

func (a alone) Get(_ context.Context, key string) ([]byte, bool, error) {
	v, ok := a[key]
	return v, ok, nil
}

func (alone) Fence(ctx context.Context) error { return ctx.Err() }

func (alone) Abort(string) {}

func (alone) Close() error { return nil }

func (alone) Local() netip.Addr { return netip.Addr{} }

// greetVersion is the version of the ranks' greetings.
const greetVersion = 1

// greeting is the first message of each rank to the others.
type greeting struct {
	Version   int    `json:"version"`
	Rank      int    `json:"rank"`
	Size      int    `json:"size"`
	LocalRank int    `json:"localRank"`
	LocalSize int    `json:"localSize,omitempty"` // 0: its launcher did not say
	Host      string `json:"host"`
	Agent     string `json:"agent,omitempty"` // that has started it, and others
	Start     string `json:"start,omitempty"` // the agent's number of it
}

// greet exchanges greetings: it finds ranks that do not fit together, and counts those of
// this host if the launcher has not.
func (j *Job) greet(ctx context.Context, p *place) error {
	mine, err := json.Marshal(greeting{greetVersion, j.Rank, j.Size, j.LocalRank, j.LocalSize, hostID(), p.agent, p.start})
	if err != nil {
		return err
	}
	all, err := j.Allgather(ctx, mine)
	if err != nil {
		return err
	}
	greetings := make([]greeting, len(all))
	for r, text := range all {
		g := &greetings[r]
		if err := json.Unmarshal(text, g); err != nil {
			return public(j.Launcher, board.Failed(r, board.Mistake, "rank %d sent an invalid greeting: %v", r, err))
		}
		switch {
		case g.Version != greetVersion:
			return public(j.Launcher, board.Failed(r, board.Mistake, "rank %d speaks version %d, rank %d version %d", r, g.Version, j.Rank, greetVersion))
		case g.Rank != r || g.Size != j.Size:
			return public(j.Launcher, board.Failed(r, board.Mistake, "rank %d says that it is rank %d of %d, rank %d that there are %d", r, g.Rank, g.Size, j.Rank, j.Size))
		}
	}
	if f := formerStart(greetings); f != nil {
		return public(j.Launcher, f)
	}
	hosts := make(map[string]bool)
	for _, g := range greetings {
		hosts[g.Host] = true
	}
	j.hosts = len(hosts)
	j.names = rankNames(greetings)
	if j.LocalSize == 0 {
		j.LocalRank, j.LocalSize = neighbors(greetings, j.Rank)
	}
	return nil
}

// formerStart finds a rank that was not started together with others of its agent's.
func formerStart(all []greeting) error {
	last := make(map[string]int) // of each agent, the rank that was started last
	number := func(r int) int {
		n, _ := strconv.Atoi(all[r].Start)
		return n
	}
	for r, g := range all {
		if was, ok := last[g.Agent]; g.Agent != "" && (!ok || number(r) > number(was)) {
			last[g.Agent] = r
		}
	}
	for r, g := range all {
		if now, ok := last[g.Agent]; ok && number(r) < number(now) {
			return board.Failed(r, board.Mistake, "rank %d was started by agent %s when that had started %s times before, rank %d when it had %s times: end the process that is left over from a former start",
				r, g.Agent, g.Start, now, all[now].Start)
		}
	}
	return nil
}

// rankNames is what errors and logs call the ranks. A host name that is not one is left out.
func rankNames(all []greeting) []string {
	names := make([]string, len(all))
	for r, g := range all {
		names[r] = "rank " + itoa(r)
		if host, _, _ := strings.Cut(g.Host, " "); isHostName(host) {
			names[r] += " on " + host
		}
	}
	return names
}

// isHostName keeps from the logs what another process could have made up: RFC 1123 has
// letters, digits, dots and hyphens, and some hosts have underscores.
func isHostName(s string) bool {
	return s != "" && len(s) <= 253 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
	})
}

// neighbors counts the ranks of one host.
func neighbors(all []greeting, rank int) (localRank, localSize int) {
	for r, g := range all {
		if g.Host != all[rank].Host {
			continue
		}
		if r < rank {
			localRank++
		}
		localSize++
	}
	return localRank, localSize
}

// hostID is the same for processes of one host, and for no others: names alone need not
// be.
func hostID() string {
	name, _ := os.Hostname() // "" is as good as any
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return name + " " + strings.TrimSpace(string(boot))
}
