package launch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/efactor/efactor/api/internal/errtext"
)

// The variables of this package's own.
const (
	envLauncher     = "EFACTOR_LAUNCHER"
	envRank         = "EFACTOR_RANK"
	envSize         = "EFACTOR_SIZE"
	envLocalRank    = "EFACTOR_LOCAL_RANK"
	envLocalSize    = "EFACTOR_LOCAL_SIZE"
	envRendezvous   = "EFACTOR_RENDEZVOUS"
	envRendezvousFD = "EFACTOR_RENDEZVOUS_FD"
	envJob          = "EFACTOR_JOB"
	envSecret       = "EFACTOR_JOB_SECRET"
	envSecretFile   = "EFACTOR_JOB_SECRET_FILE"
	envInsecure     = "EFACTOR_INSECURE"
	envAddr         = "EFACTOR_ADDR"
	envTimeout      = "EFACTOR_TIMEOUT"
	envDevice       = "EFACTOR_DEVICE"
)

// maxSecretFile bounds the read of a file that should have a few dozen bytes.
const maxSecretFile = 64 << 10

// environment is a Config whose gaps the environment has filled, and the environment.
type environment struct {
	cfg Config
	get func(string) string
}

// resolve fills the gaps of cfg, as far as it can.
func (cfg Config) resolve() (*environment, error) {
	e := &environment{cfg, cfg.getenv}
	if e.get == nil {
		e.get = os.Getenv
	}
	if e.cfg.terminal == nil {
		e.cfg.terminal = onTerminal
	}
	if e.cfg.Logger == nil {
		e.cfg.Logger = slog.Default()
	}
	e.fill(&e.cfg.Launcher, envLauncher)
	e.fill(&e.cfg.Rendezvous, envRendezvous)
	e.fill(&e.cfg.Job, envJob)
	e.fill(&e.cfg.Fabric.DeviceName, envDevice)
	for _, read := range []func() error{e.readInsecure, e.readTimeout, e.readAddr, e.readSecret, e.readLocal} {
		if err := read(); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (e *environment) fill(field *string, name string) {
	if *field == "" {
		*field = e.get(name)
	}
}

func (e *environment) readInsecure() error {
	switch s := e.get(envInsecure); s {
	case "", "0", "false":
	case "1", "true":
		e.cfg.Insecure = true
	default: // ambiguous variables are an error
		return bad("%s=%q: 1 or 0", envInsecure, s)
	}
	return nil
}

func (e *environment) readTimeout() error {
	if s := e.get(envTimeout); e.cfg.Timeout == 0 && s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			return bad("%s=%q: want a duration as in 90s or 5m", envTimeout, s)
		}
		e.cfg.Timeout = d
	}
	if e.cfg.Timeout == 0 {
		e.cfg.Timeout = DefaultTimeout
	}
	if e.cfg.Timeout < 0 {
		return bad("timeout %v", e.cfg.Timeout)
	}
	return nil
}

func (e *environment) readAddr() error {
	if s := e.get(envAddr); !e.cfg.Addr.IsValid() && s != "" {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return bad("%s=%q: want an IP address", envAddr, s)
		}
		e.cfg.Addr = a
	}
	return nil
}

func (e *environment) readSecret() error {
	if len(e.cfg.Secret) > 0 {
		return nil
	}
	text, path := e.get(envSecret), e.get(envSecretFile)
	switch {
	case text != "" && path != "":
		return bad("both %s and %s are set", envSecret, envSecretFile)
	case text != "":
		e.cfg.Secret = []byte(text)
	case path != "":
		secret, err := readSecretFile(path)
		if err != nil {
			return bad("%s: %w", envSecretFile, err)
		}
		e.cfg.Secret = secret
	}
	return nil
}

// readSecretFile reads a file without the newline that editors leave.
func readSecretFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxSecretFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxSecretFile)
	}
	b = []byte(strings.TrimRight(string(b), "\r\n"))
	if len(b) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return b, nil
}

func (e *environment) readLocal() error {
	if e.cfg.LocalSize != 0 {
		return nil
	}
	n, ok, err := e.number(envLocalSize, 1, MaxSize)
	if err == nil && !ok && e.get(envLocalRank) != "" {
		return bad("%s is set, %s is not", envLocalRank, envLocalSize)
	}
	if err != nil || !ok {
		return err
	}
	r, err := e.needed(envLocalRank, 0, n-1)
	if err != nil {
		return err
	}
	e.cfg.LocalRank, e.cfg.LocalSize = r, n
	return nil
}

// number reads a variable that is a decimal number from least to most, if it is set.
func (e *environment) number(name string, least, most int) (n int, ok bool, err error) {
	s := e.get(name)
	if s == "" {
		return 0, false, nil
	}
	n, err = strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, false, bad("%s=%q: want a number from %d to %d", name, s, least, most)
	}
	return n, true, nil
}

// needed is number, of a variable that must be set.
func (e *environment) needed(name string, least, most int) (int, error) {
	n, ok, err := e.number(name, least, most)
	if err == nil && !ok {
		err = bad("%s is not set", name)
	}
	return n, err
}

// rankOf reads a rank and the number of ranks.
func (e *environment) rankOf(rankName, sizeName string) (rank, size int, err error) {
	if size, err = e.needed(sizeName, 1, MaxSize); err != nil {
		return 0, 0, err
	}
	rank, err = e.needed(rankName, 0, size-1)
	return rank, size, err
}

// place is a launcher's description of this process.
type place struct {
	launcher             string // for people
	rank, size           int
	localRank, localSize int // localSize 0: not said
	job                  string
	agent, start         string       // ranks of one agent are of one start; "": not said
	left                 func() error // why this process is left over from a former start; may be nil
	join                 func(context.Context, *environment, *place) (carrier, error)
	// stays: the launcher expects the process to sign off at its end.
	stays bool
}

// carrier carries a Job's board.
type carrier interface {
	Put(ctx context.Context, key string, value []byte) error
	Fence(ctx context.Context) error
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Abort(text string)
	Close() error
	// Local is this host's address as the launcher's connections show it, if they do.
	Local() netip.Addr
}

// launchers are all there are, in the order of the package comment. Each returns nil if
// it has left no traces. A process that torchrun started under mpiexec or srun sees the
// traces of both and belongs to torchrun; mpirun under srun likewise leaves those of
// Slurm.
var launchers = []struct {
	name string
	find func(*environment) (*place, error)
}{
	{"explicit", (*environment).findExplicit},
	{"env", (*environment).findOwn},
	{"torchrun", (*environment).findTorchrun},
	{"pmi", (*environment).findPMI},
	{"openmpi", (*environment).findOpenMPI},
	{"slurm", (*environment).findSlurm},
	{"torchrun", (*environment).findLikeTorchrun},
	{"kubernetes", (*environment).findKubernetes},
	{aloneName, (*environment).findNothing},
}

// find asks the launchers in turn.
func (e *environment) find() (*place, error) {
	var names []string
	for _, l := range launchers {
		names = append(names, l.name)
		if e.cfg.Launcher != "" && e.cfg.Launcher != l.name {
			continue
		}
		p, err := l.find(e)
		if err != nil {
			return nil, err
		}
		if p != nil {
			return p, e.agree(p, l.name)
		}
	}
	if e.cfg.Launcher != "" {
		return nil, bad("launcher %q: there is no trace of it, or no such launcher; those known: %s", e.cfg.Launcher, strings.Join(names, ", "))
	}
	return nil, nil // not reached: findNothing finds
}

// agree fills in and checks what the environment may say besides.
func (e *environment) agree(p *place, name string) error {
	if name == aloneName && e.cfg.Launcher == name { // inherited variables are ignored
		return nil
	}
	if e.cfg.LocalSize > 0 {
		if e.cfg.LocalRank < 0 || e.cfg.LocalRank >= e.cfg.LocalSize {
			return bad("local rank %d of %d", e.cfg.LocalRank, e.cfg.LocalSize)
		}
		if p.size > 0 && e.cfg.LocalSize > p.size {
			return bad("%d ranks on this host, but %s says that there are %d in all", e.cfg.LocalSize, p.launcher, p.size)
		}
		p.localRank, p.localSize = e.cfg.LocalRank, e.cfg.LocalSize
	}
	if e.cfg.Job == "" {
		e.cfg.Job = p.job
	}
	if name == "explicit" || p.size == 0 { // with PMI_PORT it is known later
		return nil
	}
	n, ok, err := e.number(envSize, 1, MaxSize)
	switch {
	case err != nil || !ok || n == p.size:
	case name == aloneName:
		err = bad("%s=%d, but there is neither %s nor a trace of a launcher", envSize, n, envRank)
	default:
		err = bad("%s says that there are %d ranks, but %s=%d", p.launcher, p.size, envSize, n)
	}
	return err
}

const aloneName = "alone"

const aloneText = "none: this process is alone"

func (e *environment) findNothing() (*place, error) {
	if e.cfg.Launcher != aloneName {
		if err := e.findHalf(); err != nil {
			return nil, err
		}
	}
	return &place{launcher: aloneText, size: 1, join: joinAlone}, nil
}

// Found returns the launcher that Init would take by default, and reports whether
// there is one: false means that this process would be alone. The error is Init's.
func Found() (launcher string, ok bool, err error) {
	defer errtext.Wrap("launch", "find", &err)
	e, err := Config{}.resolve()
	if err != nil {
		return "", false, err
	}
	p, err := e.find()
	if err != nil {
		return "", false, err
	}
	return p.launcher, p.launcher != aloneText, nil
}

// defaultDevice is the device that Init opens by default.
const defaultDevice = "auto"

// device fills in the device's settings that the caller has left out.
func (e *environment) device(j *Job) {
	f := &e.cfg.Fabric
	if f.Logger == nil {
		f.Logger = e.cfg.Logger
		if j.LocalRank > 0 { // one per host is sufficient
			f.Logger = slog.New(warnings{e.cfg.Logger.Handler()})
		}
	}
	if f.DeviceName == "" {
		f.DeviceName = defaultDevice
	}
	if f.TCP.TLS == nil && len(f.TCP.Secret) == 0 {
		f.TCP.Secret = e.cfg.Secret
	}
	f.TCP.Insecure = f.TCP.Insecure || e.cfg.Insecure
	if f.TCP.Addr.IsValid() {
		return
	}
	f.TCP.Addr = e.cfg.Addr
	// The way to the rendezvous is one that the others have, too, unless it is only this
	// host's name for itself. Otherwise the device chooses: loopback, or with a secret
	// (or leave to do without) an address of an interface.
	here := j.at.Local()
	if !e.cfg.Addr.IsValid() && here.IsValid() && !here.IsLinkLocalUnicast() && (!here.IsLoopback() || j.hosts == 1) {
		f.TCP.Addr = here
	}
}

// hint suggests a remedy if a rank cannot be reached.
func (e *environment) hint(j *Job) string {
	if j.hosts > 1 && len(e.cfg.Fabric.TCP.Secret) == 0 && e.cfg.Fabric.TCP.TLS == nil && !e.cfg.Fabric.TCP.Insecure {
		return fmt.Sprintf(" (the ranks are on %d hosts, and there is neither a job secret, %s or %s, nor %s=1)",
			j.hosts, envSecret, envSecretFile, envInsecure)
	}
	return ""
}

// warnings lets nothing below a warning through.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs(as []slog.Attr) slog.Handler { return warnings{w.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
