package launch

import "time"

// SetLinger changes for how long Group.Close waits for operations in progress.
func SetLinger(d time.Duration) { linger = d }
