// Package efadebug shows the operations in progress at endpoints, as a page that an
// application mounts at a path of its choice:
//
//	page := efadebug.New()
//	page.Add("worker 3", endpoint)
//	http.Handle("/debug/efa", page)
//
// The page lists the operations in progress with the reason for which each waits, those that are stuck
// first, then the oldest, and the peers with their state; it refreshes itself. The same as JSON is at
// ?json: a list of [Entry]. A page that has joined a job ([Page.Join]) shows above all else which rank
// holds the others up, and has all ranks at ?job. Nothing is served unless an application does so, and nothing is
// kept between two requests. The page shows addresses, connids and tags, which is
// enough to forge packets on a shared fabric: mount it where only operators have
// access. It is served to browsers that ask for localhost or an IP address, and under the
// names in [Page.Hosts].
package efadebug
