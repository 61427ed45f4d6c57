//go:build !linux && !darwin

package host

import "net"

// checkPeer relies on the access rights of the state directory, which its
// owner alone can enter: the system does not tell a socket's peer.
func checkPeer(net.Conn) error { return nil }
