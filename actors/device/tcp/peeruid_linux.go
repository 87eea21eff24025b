package tcp

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// socketOwners says which users sockets of this host belong to. The methods of one wait for
// the system; one goroutine at a time may call them.
type socketOwners struct {
	diag  int    // a netlink socket; -1: the system has no such thing
	knows bool   // diag has found a socket, so that one that it does not find is not there
	tcp4  string // the file that has the same, should diag not answer
	tcp6  string
	buf   [4096]byte
}

// newSocketOwners opens what can be opened. The network namespace of diag is that of the calling
// thread, as that of the queue pair's sockets. The files are opened later, by a thread that runs
// for all of the process, so a queue pair in a namespace of one thread of it depends on diag: it is
// not found in the files of another, and nobody gets in.
func newSocketOwners() *socketOwners {
	o := &socketOwners{diag: -1, tcp4: "/proc/thread-self/net/tcp", tcp6: "/proc/thread-self/net/tcp6"}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return o
	}
	wait := unix.Timeval{Sec: 1}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		_ = unix.Close(fd)
		return o
	}
	o.diag = fd
	return o
}

func (o *socketOwners) close() {
	if o.diag >= 0 {
		_ = unix.Close(o.diag)
	}
}

// of returns the user whose socket is at p.near, connected to p.far.
func (o *socketOwners) of(p sockPair) (uid uint32, err error) {
	if o.diag >= 0 {
		uid, err = o.ask(p)
		o.knows = o.knows || err == nil
		switch {
		case err == nil, errors.Is(err, errNoSocket):
			return uid, err
		case errors.Is(err, unix.ENOENT) && o.knows: // else the kernel may lack the module
			return 0, errNoSocket
		}
	}
	return o.read(p)
}

// Parts of the netlink protocol (linux/inet_diag.h).
const (
	diagHeader  = 16 // nlmsghdr
	diagRequest = 56 // inet_diag_req_v2
	diagReply   = 72 // inet_diag_msg
	diagByPair  = 20 // SOCK_DIAG_BY_FAMILY
	established = 1  // TCP_ESTABLISHED
)

// ask asks for the socket of exactly this pair. An answer about anything else, as a
// listening socket of that port, does not count.
func (o *socketOwners) ask(p sockPair) (uint32, error) {
	b := o.buf[:diagHeader+diagRequest]
	clear(b)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], diagByPair)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	q := b[diagHeader:]
	q[0], q[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if AddrOf(p.near.gid).Is4() {
		q[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(q[4:], 1<<established)
	p.appendID(q[8:8])
	binary.NativeEndian.PutUint64(q[48:], ^uint64(0)) // no cookie
	if err := unix.Sendto(o.diag, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoOwners, err)
	}
	n, from, err := unix.Recvfrom(o.diag, o.buf[:], 0)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoOwners, err)
	}
	if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
		return 0, fmt.Errorf("%w: an answer that is not the kernel's", errNoOwners)
	}
	return p.parse(o.buf[:n])
}

// appendID appends the pair as inet_diag_sockid begins: ports, and 16 bytes for each address.
func (p sockPair) appendID(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, p.near.qpn)
	b = binary.BigEndian.AppendUint16(b, p.far.qpn)
	for _, a := range [...]address{p.near, p.far} {
		var at [16]byte
		if ip := AddrOf(a.gid); ip.Is4() {
			v4 := ip.As4()
			copy(at[:], v4[:])
		} else {
			at = ip.As16()
		}
		b = append(b, at[:]...)
	}
	return b
}

// parse reads the kernel's answer.
func (p sockPair) parse(b []byte) (uint32, error) {
	if len(b) >= diagHeader+4 && binary.NativeEndian.Uint16(b[4:]) == unix.NLMSG_ERROR {
		errno := unix.Errno(-int32(binary.NativeEndian.Uint32(b[diagHeader:])))
		return 0, fmt.Errorf("%w: %w", errNoOwners, errno)
	}
	if len(b) < diagHeader+diagReply || binary.NativeEndian.Uint16(b[4:]) != diagByPair {
		return 0, fmt.Errorf("%w: an answer of %d bytes", errNoOwners, len(b))
	}
	m := b[diagHeader:]
	uid, inode := binary.NativeEndian.Uint32(m[64:]), binary.NativeEndian.Uint32(m[68:])
	if m[1] != established || string(m[4:40]) != string(p.appendID(nil)) || inode == 0 {
		return 0, errNoSocket
	}
	return uid, nil
}

// read looks the pair up in the system's list of connections.
func (o *socketOwners) read(p sockPair) (uint32, error) {
	file := o.tcp6
	if AddrOf(p.near.gid).Is4() {
		file = o.tcp4
	}
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoOwners, err)
	}
	defer f.Close()
	near, far := procAddress(p.near), procAddress(p.far)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
		w := strings.Fields(lines.Text())
		if len(w) < 10 || w[1] != near || w[2] != far {
			continue
		}
		uid, err := strconv.ParseUint(w[7], 10, 32)
		if err != nil || w[3] != "01" || w[9] == "0" {
			return 0, errNoSocket
		}
		return uint32(uid), nil
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoOwners, err)
	}
	return 0, errNoSocket
}

// procAddress is an address as /proc/net/tcp has it: words of 32 bits, each as a number.
func procAddress(a address) string {
	ip := AddrOf(a.gid).AsSlice()
	words := make([]byte, len(ip))
	for i := 0; i < len(ip); i += 4 {
		binary.BigEndian.PutUint32(words[i:], binary.NativeEndian.Uint32(ip[i:]))
	}
	return strings.ToUpper(hex.EncodeToString(words)) + fmt.Sprintf(":%04X", a.qpn)
}
