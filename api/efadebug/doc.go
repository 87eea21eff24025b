// Package efadebug shows what endpoints are doing right now, as a page that an
// application mounts where it likes:
//
//	page := efadebug.New()
//	page.Add("worker 3", endpoint)
//	http.Handle("/debug/efa", page)
//
// The page lists the operations in progress, oldest first, with what each waits for,
// and the peers with their state; it refreshes itself. The same as JSON is at ?json:
// a list of [Entry]. Nothing is served unless an application does so, and nothing is
// kept between two requests. Whoever sees the page learns addresses, connids and tags,
// which is enough to forge packets on a shared fabric: mount it where operators are.
package efadebug
