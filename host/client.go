package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// maxReplyBytes bounds a line that a client takes: a page of long outputs, and
// some room.
const maxReplyBytes = 32 << 20

// Client is one connection to a daemon. Calls may be made from several
// goroutines; one that subscribes should keep the client for that.
type Client struct {
	link   link
	events chan json.RawMessage
	closed chan struct{}

	mu      sync.Mutex
	pending map[string]chan reply
	lastID  int
	err     error // why the connection ended; nil while it is open

	writing sync.Mutex
}

type reply struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	OK      bool            `json:"ok"`
	Payload json.RawMessage `json:"payload"`
	Error   *WireError      `json:"error"`
	Event   string          `json:"event"`
}

func newClient(l link) *Client {
	c := &Client{link: l, events: make(chan json.RawMessage, 64), closed: make(chan struct{}), pending: map[string]chan reply{}}
	go c.read()
	return c
}

// Close ends the connection; calls that wait end with an error.
func (c *Client) Close() error {
	c.fail(net.ErrClosed)
	return nil
}

// Call asks for one method and decodes its payload into result, which may be
// nil or a *json.RawMessage. A refusal is a *WireError.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	raw := json.RawMessage("{}")
	if params != nil {
		var err error
		if raw, err = encodeFrame(params); err != nil {
			return fmt.Errorf("%s: encode params: %w", method, err)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	answer := make(chan reply, 1)
	id, err := c.expect(answer)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer c.forget(id)
	if err := c.write(ctx, id, method, raw); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case r := <-answer:
		return r.into(method, result)
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		select { // a reply that came just before the end counts
		case r := <-answer:
			return r.into(method, result)
		default:
			return fmt.Errorf("%s: %w", method, c.reason())
		}
	}
}

func (r reply) into(method string, result any) error {
	switch {
	case r.Error != nil:
		return r.Error
	case !r.OK:
		return fmt.Errorf("%s: refused without a reason", method)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(r.Payload, result); err != nil {
		return fmt.Errorf("%s: decode the answer: %w", method, err)
	}
	return nil
}

// Subscribe calls each with every event after since (all that are kept for 0,
// only new ones below 0), until ctx ends, the connection ends, or each fails.
func (c *Client) Subscribe(ctx context.Context, since int64, each func(worker.Event) error) error {
	if _, err := c.begin(ctx, since); err != nil {
		return err
	}
	return c.listen(ctx, each)
}

// begin asks for events and says after which one they start.
func (c *Client) begin(ctx context.Context, since int64) (int64, error) {
	params := map[string]int64{}
	if since >= 0 {
		params["since"] = since
	}
	var s subscribed
	if err := c.Call(ctx, subscribeMethod, params, &s); err != nil {
		return 0, err
	}
	if s.Seq < since {
		return 0, &OtherLedgerError{Since: since, Seq: s.Seq}
	}
	return s.Since, nil
}

// OtherLedgerError: the events asked for are ahead of the ledger. It is another
// one, or an older copy.
type OtherLedgerError struct{ Since, Seq int64 }

func (e *OtherLedgerError) Error() string {
	return fmt.Sprintf("the ledger ends with event %d, and events after %d were asked for: it is another ledger, or an older copy", e.Seq, e.Since)
}

// listen hands out what comes after begin.
func (c *Client) listen(ctx context.Context, each func(worker.Event) error) error {
	for {
		select {
		case raw := <-c.events:
			if err := deliver(raw, each); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closed:
			for { // what arrived before the end is still told
				select {
				case raw := <-c.events:
					if err := deliver(raw, each); err != nil {
						return err
					}
				default:
					return c.reason()
				}
			}
		}
	}
}

func deliver(raw json.RawMessage, each func(worker.Event) error) error {
	var ev worker.Event
	if err := json.Unmarshal(raw, &ev); err != nil {
		return fmt.Errorf("decode an event: %w", err)
	}
	return each(ev)
}

func (c *Client) expect(answer chan reply) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return "", c.err
	}
	c.lastID++
	id := strconv.Itoa(c.lastID)
	c.pending[id] = answer
	return id, nil
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func (c *Client) write(ctx context.Context, id, method string, params json.RawMessage) error {
	line, err := encodeFrame(struct {
		Type   string          `json:"type"`
		ID     string          `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}{"req", id, method, params})
	if err != nil {
		return fmt.Errorf("encode params: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(writeTimeout)
	}
	if err := c.link.write(line, deadline); err != nil {
		// A daemon that refuses a line closes while it is still being written;
		// its reason, if it gave one, is what to tell.
		select {
		case <-c.closed:
			return c.reason()
		case <-time.After(200 * time.Millisecond):
			return err
		}
	}
	return nil
}

// read hands each line to who waits for it.
func (c *Client) read() {
	for {
		line, err := c.link.next()
		if err != nil {
			c.fail(fmt.Errorf("the daemon closed the connection: %w", err))
			return
		}
		var r reply
		if json.Unmarshal(line, &r) != nil {
			continue // not ours to judge: a newer daemon may say more than we know
		}
		switch {
		case r.Type == "event" && r.Event != "rota": // what is told to all clients of the network
		case r.Type == "event":
			select {
			case c.events <- r.Payload:
			case <-c.closed:
				return
			}
		case r.ID == connErrorID && r.Error != nil:
			c.fail(r.Error)
			return
		case r.Type == "res":
			c.mu.Lock()
			answer := c.pending[r.ID]
			delete(c.pending, r.ID)
			c.mu.Unlock()
			if answer != nil {
				answer <- r // buffered for its one reply
			}
		}
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
		close(c.closed)
	}
	c.mu.Unlock()
	if first {
		c.link.close(closing{code: closeNormal})
	}
}

func (c *Client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
