// Package host is who is calling: one table of methods, and the local socket
// that offers it to the command line and to programs of the same user.
//
// It does not decide schedules, run anything, or read a table: reads come from
// the worker's snapshot, writes are commands to the worker, answered after
// their commit. It holds no transaction, and a stalled client delays its own
// replies and nothing else.
//
// Invariants:
//   - Every surface goes through Host.Handle, so a method behaves the same on
//     all of them.
//   - Nothing is unbounded: request line, connections, requests in flight,
//     queued frames, page bytes, and the time a write may take.
//   - Parameters are closed: an unknown, duplicate or case-folded key is
//     refused before anything is asked of the worker.
//
// Caveats. A client that does not read its replies is at fault and is closed
// after the write deadline; a client that subscribes gives its connection to
// the subscription. Frames are the gateway's request, response and event
// envelopes, one JSON object a line, without the gateway's handshake: on the
// socket the operating system says who is calling.
package host
