package launch

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/efactor/efactor/api/launch/internal/board"
)

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
}

// greet exchanges greetings: it finds ranks that do not fit together, and counts those of
// this host if the launcher has not.
func (j *Job) greet(ctx context.Context) error {
	mine, err := json.Marshal(greeting{greetVersion, j.Rank, j.Size, j.LocalRank, j.LocalSize, hostID()})
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
