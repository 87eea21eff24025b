// Package efadebug shows the operations in progress at endpoints, as a page that an
// application mounts at a path of its choice:
//
//	page := efadebug.New()
//	page.Add("worker 3", endpoint)
//	http.Handle("/debug/efa", page)
//
// The page lists the operations in progress, oldest first, with the reason for which each waits,
// and the peers with their state; it refreshes itself. The same as JSON is at ?json: a
// list of [Entry]. Nothing is served unless an application does so, and nothing is
// kept between two requests. The page shows addresses, connids and tags, which is
// enough to forge packets on a shared fabric: mount it where only operators have
// access. It is served to browsers that ask for localhost or an IP address, and under the
// names in [Page.Hosts].
package efadebug
