package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"
)

// SocketHeldError says that a daemon answers at the socket already: another
// database is served from the same state directory.
type SocketHeldError struct{ Path string }

func (e *SocketHeldError) Error() string {
	return "another rota serves this state directory: it answers at " + e.Path
}

// listen opens the socket, for its owner alone. What a dead daemon left there
// is removed, a living one is left alone, and so is anything that is not a
// socket.
func listen(path string) (net.Listener, error) {
	switch st, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look at the socket path: %w", err)
	case st.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s is there and is not a socket: move it away, or choose another --state-dir", path)
	default:
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			c.Close()
			return nil, &SocketHeldError{path}
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the stale socket: %w", err)
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	// Until here the directory's mode and the peer check keep others out.
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("close the socket to others: %w", err)
	}
	return listener, nil
}
