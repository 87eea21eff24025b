package jobcert

import (
	"crypto/tls"
	"crypto/x509"
)

// The name in certificates of Launch, in place of an address.
const (
	launchName     = "launch.efactor.invalid" // RFC 6761, 6.4: never assigned
	launchProtocol = "efactor-launch/1"
)

// Launch makes a key and a certificate for a process that has no queue pair yet, and
// the configurations with which it serves and dials others of the same secret. They
// accept any process of the job, on any host.
func (a *Authority) Launch() (server, client *tls.Config, err error) {
	template := leafTemplate()
	template.DNSNames = []string{launchName}
	cert, err := a.issue(template)
	if err != nil {
		return nil, nil, err
	}
	base := strict(&tls.Config{Certificates: []tls.Certificate{cert}}, launchProtocol)
	rule := func(usage x509.ExtKeyUsage) func(tls.ConnectionState) error {
		return func(cs tls.ConnectionState) error {
			if _, err := check(cs, launchProtocol, a.pool, usage); err != nil {
				return err
			}
			return cs.PeerCertificates[0].VerifyHostname(launchName)
		}
	}
	server = base.Clone()
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, a.pool
	server.VerifyConnection = rule(x509.ExtKeyUsageClientAuth)
	client = base
	client.RootCAs, client.ServerName = a.pool, launchName
	client.VerifyConnection = rule(x509.ExtKeyUsageServerAuth)
	return server, client, nil
}
