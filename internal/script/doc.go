// Package script plays the other side of an endpoint in tests: there is no fabric,
// the test takes its place. A [Rig] holds one endpoint on a [Device] that does
// nothing by itself: the endpoint's posts are kept as [Sent] until the test says
// how it ended, and packets come from [Remote] endpoints that exist only as an
// address.
//
//	test --Send, Recv--> endpoint --PostSend--> Device --> Rig.Sent
//	test --Complete, Fail, Refuse--> Device --completion--> endpoint
//	test --Inject, Written--> Device --completion--> endpoint
//
// RDMA requests of the endpoint move data between its memory and [Shared] memory of
// remote endpoints when the test completes them. [Region] is memory of the domain;
// closed ones are filled with a byte that must still be there in the end.
//
// Everything runs in the goroutine of the test, on a clock that the test moves,
// and repeats exactly. [Rig.Run] turns the shard until it has nothing to do.
//
// text.go writes events as lines of a message sequence chart; parse.go, build.go
// and words.go read packets in the same words; scenario files are made of both.
// Names stand for addresses of endpoints and of memory.
package script
