//go:build linux || darwin

package host

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkPeer lets only the same user through, in both directions: a client
// does not talk to somebody else's daemon either.
func checkPeer(nc net.Conn) error {
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	var uid uint32
	var asked error
	if err := raw.Control(func(fd uintptr) { uid, asked = peerUID(int(fd)) }); err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if asked != nil {
		return fmt.Errorf("peer credentials: %w", asked)
	}
	if own := os.Getuid(); uint64(uid) != uint64(own) {
		return fmt.Errorf("the other end of the socket belongs to user %d, and this is user %d", uid, own)
	}
	return nil
}
