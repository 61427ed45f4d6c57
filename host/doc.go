// Package host is who is calling: one table of methods, and the surfaces that
// offer it: the local socket, to the command line and to programs of the same
// user, and the gateway, a WebSocket, to programs that have the token.
//
// It does not decide schedules, run anything, or read a table: reads come from
// the worker's snapshot, writes are commands to the worker, answered after
// their commit. It holds no transaction, and a stalled client delays its own
// replies and nothing else. It also reads the files that people write, and
// watches the configuration while the daemon serves.
//
// Invariants:
//   - Every surface goes through Host.Handle, and every connection through
//     conn, so a method behaves the same on all of them. What differs is the
//     link that carries the frames, and what a connection is granted.
//   - Nothing is unbounded: frames, connections, handshakes, requests in flight,
//     what waits for a client, page bytes, and the time that a write, a header
//     or a handshake may take.
//   - Parameters are closed: an unknown, duplicate or case-folded key is
//     refused before anything is asked of the worker.
//   - A web page gets nothing from the gateway, whatever name leads it there.
//
// Caveats. A client that does not read its replies is at fault and is closed
// after the write deadline; on the gateway it first misses events, which their
// numbers show. A client that subscribes gives its connection to the
// subscription. Frames are request, response and event envelopes: one JSON
// object a line on the socket, where the operating system says who is calling,
// and one a message on the gateway, after a handshake. The token is all that the
// gateway asks for: no device is paired, and whoever has it may ask for every
// scope. The gateway does not encrypt; beyond the machine it takes a trusted
// network or a tunnel, and clients behind a proxy count as one.
package host
