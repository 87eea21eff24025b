// Package testenv decides how much of the tests runs, for all packages alike.
//
//	go test ./...                       the same everywhere: nothing but Go and this kernel, tables in their short form
//	EFACTOR_TEST_ALL=1 go test ./...    everything, as make test-all does: also with other people's programs, with
//	                                    networks of namespaces, with the whole of each table, and with real seconds
//
// CI=true means everything as well, and that whatever is missing on the machine is a failure.
// With -short the tables are in their short form in any case.
//
// Start reading at [All].
package testenv
