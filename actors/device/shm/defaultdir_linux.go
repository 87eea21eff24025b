package shm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultParent is where the processes of a user meet by default. Not $XDG_RUNTIME_DIR: a
// service, a cron job and a command over ssh have none or another one than a login session,
// and would not find each other; it also ends with the session.
func defaultParent() string {
	parent := "/dev/shm"
	if st, err := os.Stat(parent); err != nil || !st.IsDir() {
		parent = os.TempDir()
	}
	return parent
}

// defaultDir is the directory in parent that the processes of a user share. It is made if
// there is none. Anybody can take a name that is known beforehand; then one is made that
// cannot be known. So the directory is found by its owner: the oldest one of ours counts. A
// process that makes one looks again, and so sees all older ones: two that begin at the same
// time agree.
func defaultDir(parent string) (string, error) {
	uid := os.Geteuid()
	plain := fmt.Sprintf("efactor-%d", uid)
	name, err := firstMade(parent, plain, uid)
	if err != nil || name != "" {
		return filepath.Join(parent, name), err
	}
	err = unix.Mkdir(filepath.Join(parent, plain), 0o700)
	if errors.Is(err, unix.EEXIST) {
		if name, err = firstMade(parent, plain, uid); err != nil || name != "" { // made by ours just now
			return filepath.Join(parent, name), err
		}
		err = unix.Mkdir(filepath.Join(parent, plain+"."+strings.ToLower(rand.Text())), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("shm: mkdir in %s: %w", parent, err)
	}
	name, err = firstMade(parent, plain, uid)
	if err == nil && name == "" {
		err = fmt.Errorf("%w: what was made in %s is gone", ErrDirectory, parent)
	}
	return filepath.Join(parent, name), err
}

// checkParent reports an error if other users can move away what is ours in parent. They
// cannot put something else in its place, since openFolder looks at the owner, but keep our
// processes from meeting. A container may know no better place.
func checkParent(parent string) error {
	var st unix.Stat_t
	if err := unix.Stat(parent, &st); err != nil {
		return fmt.Errorf("shm: stat %s: %w", parent, err)
	}
	if uid := int(st.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to user %d", ErrDirectory, parent, uid)
	}
	if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("%w: %s has mode %04o: anybody may rename what is in it", ErrDirectory, parent, st.Mode&0o7777)
	}
	return nil
}

// firstMade returns the name of the directory in parent that the user made first, of those named
// plain, or plain and a suffix; "": there is none.
func firstMade(parent, plain string, uid int) (string, error) {
	d, err := os.Open(parent)
	if err != nil {
		return "", fmt.Errorf("shm: list %s: %w", parent, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return "", fmt.Errorf("shm: list %s: %w", parent, err)
	}
	best := birth{}
	for _, n := range names {
		if n != plain && !strings.HasPrefix(n, plain+".") {
			continue
		}
		if b, ok := birthOf(filepath.Join(parent, n), n, uid); ok && (best.name == "" || b.before(&best)) {
			best = b
		}
	}
	return best.name, nil
}

// birth says when a directory was made. The clock of a file system is coarse; the numbers of
// a tmpfs rise.
type birth struct {
	time  unix.StatxTimestamp
	inode uint64
	name  string
}

func birthOf(path, name string, uid int) (birth, bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || checkOwner(&st, uid) != nil {
		return birth{}, false
	}
	b := birth{inode: st.Ino, name: name}
	var sx unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &sx) == nil && sx.Mask&unix.STATX_BTIME != 0 {
		b.time = sx.Btime
	}
	return b, true
}

func (b *birth) before(o *birth) bool {
	switch {
	case b.time.Sec != o.time.Sec:
		return b.time.Sec < o.time.Sec
	case b.time.Nsec != o.time.Nsec:
		return b.time.Nsec < o.time.Nsec
	}
	return b.inode < o.inode
}
