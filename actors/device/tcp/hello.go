package tcp

// ask writes our preamble, of which the stream takes what it has room for.
func (l *lane) ask() {
	if len(l.asking) == 0 || !l.writable {
		return
	}
	n, err := l.st.writev([][]byte{l.asking})
	if err != nil {
		l.cannotWrite(err)
		return
	}
	l.asking = l.asking[n:]
	l.writable = len(l.asking) == 0
}

// readHello reads what comes before frames.
func (l *lane) readHello() (n, asked int, err error) {
	length := preambleLen
	if l.state == laneKnocking {
		length = greetingLen
	}
	rest := l.hello[l.helloN:length]
	n, err = l.st.readv(nil, rest)
	if l.helloN += n; l.helloN < length {
		return n, len(rest), err
	}
	if l.state == laneKnocking {
		l.p.dialer.onGreeting(l)
		return n, len(rest), err
	}
	var h preamble
	if err := h.parse(l.hello[:]); l.guest {
		l.p.door.onPreamble(l, &h, err)
	} else {
		l.p.dialer.onPreamble(l, &h, err)
	}
	return n, len(rest), err
}
