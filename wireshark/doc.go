// Package wireshark has no code in Go: its directory efa_rdm is a dissector for
// Wireshark and tshark, in Lua, of the captures that tap.Pcapng writes. README.md
// describes its installation and its fields.
//
// The tests run tshark on captures and compare the fields that it finds with the
// decoding of package wire, byte by byte, and links between packets with those that
// a test computes itself. Without tshark they are skipped, unless CI=true.
//
// In efa_rdm, layout.lua has the packets' layouts, decode.lua reads packets by them,
// links.lua finds related packets, fields.lua names the fields for filters, and
// efa_rdm.lua is where Wireshark starts and a reader should.
package wireshark
