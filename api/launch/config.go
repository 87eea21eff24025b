package launch

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch/internal/board"
)

// DefaultTimeout is how long ranks wait for each other unless Config.Timeout says so.
const DefaultTimeout = 5 * time.Minute

// MaxSize is the most ranks of a job.
const MaxSize = 1 << 16

// ErrConfig is the error of a Config, of flags or of variables of the environment that
// are wrong, incomplete or contradict each other.
var ErrConfig = errors.New("launch: bad configuration")

// Config configures Init. The zero value takes everything from the environment; a
// field that is set takes precedence over the variable in brackets.
type Config struct {
	// Launcher is which launcher to look for, as the package comment has them
	// [EFACTOR_LAUNCHER]; "": the first that is found.
	Launcher string

	// Size is the number of ranks [EFACTOR_SIZE]. If it is not 0, the caller is the
	// launcher: Rank counts, too [EFACTOR_RANK].
	Rank, Size int
	// LocalRank counts the ranks of this host, of which there are LocalSize
	// [EFACTOR_LOCAL_RANK, EFACTOR_LOCAL_SIZE]. LocalSize 0: computed from host
	// names.
	LocalRank, LocalSize int
	// Rendezvous is where rank 0 waits for the others, host:port [EFACTOR_RENDEZVOUS].
	// It takes precedence over a launcher's environment; under PMI it is not used.
	Rendezvous string
	// Job distinguishes this job from others that may use the same port [EFACTOR_JOB];
	// "": the launcher's name of it.
	Job string

	// Secret is known to all processes of the job and to no others, 16 bytes or more
	// [EFACTOR_JOB_SECRET, or the file EFACTOR_JOB_SECRET_FILE].
	Secret []byte
	// Insecure allows connections to other hosts without a secret [EFACTOR_INSECURE=1]:
	// any process that can reach the ports can join the job.
	Insecure bool
	// Addr is this host's address for the others, of the device tcp [EFACTOR_ADDR]. Zero:
	// that of the route to the rendezvous, see docs/launch.md.
	Addr netip.Addr

	// Timeout bounds Init and Join [EFACTOR_TIMEOUT]; 0: DefaultTimeout.
	Timeout time.Duration
	// Logger hears which launcher was found, and of trouble that may pass. nil:
	// slog.Default.
	Logger *slog.Logger

	// Fabric, Domain and Endpoint are what Init opens. A DeviceName of "" is
	// EFACTOR_DEVICE, or the best there is; AV may be nil.
	Fabric   efa.Config
	Domain   efa.DomainConfig
	Endpoint efa.EndpointConfig
	// Prepare, if not nil, may change the endpoint's configuration before it is opened:
	// for queues and counters, which need the domain.
	Prepare func(*efa.Domain, *efa.EndpointConfig) error

	getenv   func(string) string // of tests; nil: os.Getenv
	terminal func() bool         // of tests; nil: onTerminal
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrConfig, fmt.Errorf(format, args...))
}

// AddFlags adds flags for the variables of the environment, to be parsed before Init:
// -launch.rank, -launch.size and so on. They take precedence over the environment.
func (cfg *Config) AddFlags(fs *flag.FlagSet) {
	fs.StringVar(&cfg.Launcher, "launch.launcher", cfg.Launcher, "take this `launcher`, not the first that is found")
	fs.IntVar(&cfg.Rank, "launch.rank", cfg.Rank, "this process's rank, with -launch.size")
	fs.IntVar(&cfg.Size, "launch.size", cfg.Size, "number of ranks, of which each was started with its -launch.rank")
	fs.StringVar(&cfg.Rendezvous, "launch.rendezvous", cfg.Rendezvous, "where rank 0 waits for the others, `host:port`")
	fs.StringVar(&cfg.Job, "launch.job", cfg.Job, "a `name` that no other job has")
	fs.BoolVar(&cfg.Insecure, "launch.insecure", cfg.Insecure, "connect to other hosts even without a job secret")
	fs.DurationVar(&cfg.Timeout, "launch.timeout", cfg.Timeout, "how long to wait for other ranks; 0: "+envTimeout+", or "+DefaultTimeout.String())
	fs.StringVar(&cfg.Fabric.DeviceName, "launch.device", cfg.Fabric.DeviceName, "`device` to use, as efa.OpenDevice names them")
	fs.TextVar(&cfg.Addr, "launch.addr", cfg.Addr, "this host's IP `address` for the others")
	fs.Func("launch.secret-file", "`file` with the job secret", func(path string) (err error) {
		cfg.Secret, err = readSecretFile(path)
		return err
	})
}

// ErrMismatch is the error of ranks that contradict each other: two with one rank, other
// numbers of ranks, other versions, other secrets.
var ErrMismatch = board.ErrMistake

// ErrNoKey is the error of Get for a key that was not put.
var ErrNoKey = errors.New("launch: no such key on the board")

// RankError names the rank that kept the others from meeting. It is the same at all ranks
// that can still be reached.
type RankError struct {
	Rank   int
	Reason string
	Err    error // for errors.Is; may be nil
}

// Error implements error.
func (e *RankError) Error() string { return e.Reason }

// Unwrap gives errors.Is what it looks for.
func (e *RankError) Unwrap() error { return e.Err }

// public is an error of a carrier as callers are to see it.
func public(launcher string, err error) error {
	if err == nil {
		return nil
	}
	var f *board.Failure
	if errors.As(err, &f) && f.Rank != board.Nobody {
		err = &RankError{f.Rank, err.Error(), f.Unwrap()}
	}
	if errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("launch: the job is closed: %w", err)
	}
	return fmt.Errorf("launch: %s: %w", launcher, err)
}
