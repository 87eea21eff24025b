package launch

import (
	"net"
	"strconv"
	"strings"
)

// kubernetesPort is where index 0 of a Job waits unless EFACTOR_RENDEZVOUS says otherwise.
const kubernetesPort = 16383

// findKubernetes: an indexed Job, one rank in a pod. Kubernetes provides the index, but
// not the number of ranks, and not the name of the headless service.
func (e *environment) findKubernetes() (*place, error) {
	if e.get("JOB_COMPLETION_INDEX") == "" {
		return nil, nil
	}
	rank, size, err := e.rankOf("JOB_COMPLETION_INDEX", envSize)
	if err != nil {
		return nil, bad("kubernetes: an indexed Job does not tell its completions: %w", err)
	}
	p := &place{launcher: "kubernetes: indexed Job", rank: rank, size: size}
	addr := e.Rendezvous
	if addr != "" && !strings.Contains(addr, ":") {
		addr = net.JoinHostPort(addr, strconv.Itoa(kubernetesPort))
	}
	if addr == "" && e.get("JOB_NAME") != "" && e.get("SERVICE_NAME") != "" {
		addr = net.JoinHostPort(e.get("JOB_NAME")+"-0."+e.get("SERVICE_NAME"), strconv.Itoa(kubernetesPort))
	}
	return p, e.meetAt(p, addr, envRendezvous+" to JOB-0.SERVICE:PORT, the pod of index 0 in the headless service,")
}
