package launch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/efactor/efactor/internal/errtext"
)

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
