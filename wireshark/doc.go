// Package wireshark has no code in Go: its directory efa_rdm is a dissector for
// Wireshark and tshark, in Lua, of the captures that tap.Pcapng writes. README.md
// tells how to install it and what it shows.
//
// The tests run tshark on captures and compare what it finds with what package wire
// decodes, byte by byte, and links between packets with those that a test works out
// for itself. Without tshark they are skipped, unless CI=true.
//
// In efa_rdm, layout.lua has the packets' layouts, decode.lua reads packets by them,
// links.lua finds what packets have to do with each other, fields.lua names what can
// be filtered by, and efa_rdm.lua is where Wireshark starts and a reader should.
package wireshark
