package main

import (
	"os"
	"path/filepath"

	"github.com/efactor/efactor/api/efa"
)

// compare holds what was sent against what came. A receive that had its message and failed
// with the sender has told its application, once for each message.
func (c *conductor) compare(expect []gotLog, sent map[stream]sentLog, n *news) {
	have := map[stream]*gotLog{}
	for i := range n.Got {
		have[n.Got[i].Stream] = &n.Got[i]
	}
	for _, e := range expect {
		s, g := sent[e.Stream], have[e.Stream]
		if g == nil {
			g = &gotLog{}
		}
		c.row.Messages += s.N
		if lost, told := s.lost(g), n.Broken[s.Stream.From]; len(lost) > told {
			c.row.wrong("%s %d to %s %d: of %d messages %d were reported sent and never came, from number %d; %d receives had failed",
				c.is(s.Stream.From), s.Stream.From, c.is(s.Stream.To), s.Stream.To, s.N, len(lost), lost[0], told)
		}
	}
}

// checkFiles opens the fabric once more, which removes what the dead have left, and looks for
// anything else. What foes made has names of their own.
func (c *conductor) checkFiles() {
	if c.Dir == "" {
		return
	}
	defer os.RemoveAll(c.Dir)
	dirs := map[string]string{c.Dir: "shm:" + c.Dir}
	if c.Device == "auto" {
		dirs = map[string]string{}
		for _, host := range []string{"host0", "host1"} {
			dirs[filepath.Join(c.Dir, host)] = "shm:" + filepath.Join(c.Dir, host)
		}
	}
	if !c.shares() {
		dirs = nil
	}
	for dir, name := range dirs {
		dev, err := efa.OpenDevice(name)
		if err == nil {
			err = dev.Close()
		}
		if err != nil {
			c.row.wrong("opening %s after the attack: %v", dir, err)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			c.row.wrong("%v", err)
		}
		for _, f := range files {
			if !foesFile(f.Name()) {
				c.row.wrong("left behind: %s", f.Name())
			}
		}
	}
}
