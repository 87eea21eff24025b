package profile

import (
	"fmt"
	"slices"
	"strings"
)

// Default is a device of the second generation with RDMA read under a 6.1 kernel.
func Default() Profile {
	return Profile{
		Name:     "efa",
		RDMARead: true, RNRRetry: true, Notify: true, SGID: true,
		PartID: 0xefa1, MaxRDMA: 1 << 30,
		MaxSQ: 4096, MaxRQ: 32768, MaxQPWR: 4096, MaxSGESQ: 2, MaxSGERQ: 2,
		MaxQP: 256, MaxCQ: 512, MaxCQE: 32768,
		MaxMR: 65536, MaxPD: 256, MaxAH: 4096,
		MaxLLQ: 256 << 10, MaxTxBatch: 16, SubCQs: 1, Inline: 32,
		CompVectors: 2,
	}
}

// variants are what the named profiles make of Default, in the order of List.
var variants = []struct {
	name, text string
	change     func(*Profile)
}{
	{"efa", "a 6.1 kernel and RDMA read", func(*Profile) {}},
	{"no-rdma", "efa without RDMA", func(p *Profile) { p.RDMARead, p.MaxRDMA = false, 0 }},
	{"efa0", "the first devices: no RDMA, no RNR setting, no events, two sub-CQs", func(p *Profile) {
		p.PartID, p.RDMARead, p.MaxRDMA = 0xefa0, false, 0
		p.RNRRetry, p.Notify, p.SubCQs, p.CompVectors = false, false, 2, 1
	}},
	{"rdma-write", "the newest kernel: RDMA write, WQEs of 128 bytes, receives that a write doesn't take", newest},
	{"small", "queues and limits that are soon full, doorbells that must come often", func(p *Profile) {
		p.MaxSQ, p.MaxRQ, p.MaxQPWR = 64, 64, 64
		// Completion queues are as deep as elsewhere: libfabric 1.17 asks for 8192 entries and
		// crashes without, 2.1 for as many as its application wants, and is refused.
		p.MaxQP, p.MaxCQ, p.MaxMR, p.MaxPD, p.MaxAH = 4, 4, 32, 4, 8
		p.MaxLLQ, p.MaxTxBatch, p.MaxRDMA = 64*64, 4, 1<<20
	}},
	{"strict", "rdma-write with a least size of send queues and QP numbers that come back at once", func(p *Profile) {
		newest(p)
		p.MinSQ, p.QPNReuse = 32, true
	}},
}

func newest(p *Profile) {
	p.Kernel, p.PartID = Newest, 0xefa2
	p.RDMAWrite, p.UnsolicitedWrite = true, true
	p.InlineEx = 80
}

// Named returns the profile of that name.
func Named(name string) (Profile, error) {
	for _, v := range variants {
		if v.name == name {
			p := Default()
			v.change(&p)
			p.Name = v.name
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("profile: no %q; there are %s", name, strings.Join(List(), ", "))
}

// List has the names that Named knows, the default first.
func List() []string {
	names := make([]string, 0, len(variants))
	for _, v := range variants {
		names = append(names, v.name)
	}
	return slices.Clip(names)
}

// Describe is a line about the profile of that name; "" if there is none.
func Describe(name string) string {
	for _, v := range variants {
		if v.name == name {
			return v.text
		}
	}
	return ""
}
