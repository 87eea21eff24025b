// Package paged moves the pages of a key-value cache from the process that computes them
// (prefill) into the memory of the one that uses them (decode), layer by layer.
//
// The decode process offers memory for all layers. The prefill process writes each page to its
// place, in any order, with the layer as the value of its data, and the round as the generation.
// The decode process waits until a layer has as many pages as it must: nobody sends a message
// for a page or for a layer, and no page has an entry in a queue.
//
//	sink, err := paged.NewSink(shape, domain, endpoint, prefill)   // decode
//	round, err := sink.Begin(ctx)
//	pages, err := sink.Layer(ctx, 0)                               // is there
//
//	source, err := paged.NewSource(shape, endpoint, decode)        // prefill
//	round, err := source.Next(ctx)
//	err = source.Write(ctx, layer, page, bytes)
//	err = source.Finish(ctx)
package paged
