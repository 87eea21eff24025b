package launch

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
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
	Config
	get func(string) string
}

// resolve fills the gaps of cfg, as far as it can.
func (cfg Config) resolve() (*environment, error) {
	e := &environment{cfg, cfg.getenv}
	if e.get == nil {
		e.get = os.Getenv
	}
	if e.terminal == nil {
		e.terminal = onTerminal
	}
	if e.Logger == nil {
		e.Logger = slog.Default()
	}
	e.fill(&e.Launcher, envLauncher)
	e.fill(&e.Rendezvous, envRendezvous)
	e.fill(&e.Job, envJob)
	e.fill(&e.Fabric.DeviceName, envDevice)
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
		e.Insecure = true
	default: // ambiguous variables are an error
		return bad("%s=%q: 1 or 0", envInsecure, s)
	}
	return nil
}

func (e *environment) readTimeout() error {
	if s := e.get(envTimeout); e.Timeout == 0 && s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			return bad("%s=%q: want a duration as in 90s or 5m", envTimeout, s)
		}
		e.Timeout = d
	}
	if e.Timeout == 0 {
		e.Timeout = DefaultTimeout
	}
	if e.Timeout < 0 {
		return bad("timeout %v", e.Timeout)
	}
	return nil
}

func (e *environment) readAddr() error {
	if s := e.get(envAddr); !e.Addr.IsValid() && s != "" {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return bad("%s=%q: want an IP address", envAddr, s)
		}
		e.Addr = a
	}
	return nil
}

func (e *environment) readSecret() error {
	if len(e.Secret) > 0 {
		return nil
	}
	text, path := e.get(envSecret), e.get(envSecretFile)
	switch {
	case text != "" && path != "":
		return bad("both %s and %s are set", envSecret, envSecretFile)
	case text != "":
		e.Secret = []byte(text)
	case path != "":
		secret, err := readSecretFile(path)
		if err != nil {
			return bad("%s: %w", envSecretFile, err)
		}
		e.Secret = secret
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
	if e.LocalSize != 0 {
		return nil
	}
	n, ok, err := e.number(envLocalSize, 1, MaxSize)
	if err != nil || !ok {
		return err
	}
	r, err := e.needed(envLocalRank, 0, n-1)
	if err != nil {
		return err
	}
	e.LocalRank, e.LocalSize = r, n
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
