package kv

import (
	"encoding/binary"
	"hash/crc64"
	"hash/fnv"
)

const (
	entryLen = 2048
	sumAt    = 8
	bodyAt   = 16 // what is summed: version, lengths, key, value
	keyAt    = 28
)

// The most bytes of a key and of a value.
const (
	MaxKey   = 100
	MaxValue = entryLen - keyAt - MaxKey
)

var table = crc64.MakeTable(crc64.ECMA)

// hash determines the place of a key.
func hash(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}

// encode makes an entry, and returns its length in b.
func encode(b []byte, version uint64, key string, value []byte) int {
	n := keyAt + len(key) + len(value)
	binary.LittleEndian.PutUint64(b[bodyAt:], version)
	binary.LittleEndian.PutUint16(b[24:], uint16(len(key)))
	binary.LittleEndian.PutUint16(b[26:], uint16(len(value)))
	copy(b[keyAt:], key)
	copy(b[keyAt+len(key):], value)
	binary.LittleEndian.PutUint64(b[sumAt:], crc64.Checksum(b[bodyAt:n], table))
	return n
}

// decode parses an entry; key and value lie in b. An entry that was never written has
// version 0. Not ok means that it is torn.
func decode(b []byte) (version uint64, key, value []byte, ok bool) {
	sum := binary.LittleEndian.Uint64(b[sumAt:])
	version = binary.LittleEndian.Uint64(b[bodyAt:])
	if sum == 0 && version == 0 {
		return 0, nil, nil, true
	}
	k, v := int(binary.LittleEndian.Uint16(b[24:])), int(binary.LittleEndian.Uint16(b[26:]))
	if keyAt+k+v > len(b) || sum != crc64.Checksum(b[bodyAt:keyAt+k+v], table) {
		return 0, nil, nil, false
	}
	return version, b[keyAt : keyAt+k], b[keyAt+k : keyAt+k+v], true
}
