package worker

// Order is one thing the worker asks of the launcher. Exactly one field is set.
type Order struct {
	Launch  *Launch  // start this run; its activation is committed
	Cancel  *Cancel  // end this active run, or its delivery
	Deliver *Deliver // send this run's result; it is committed
	// Settled names a run whose end is committed: its launch-log entry and
	// anything kept to offer it again may go.
	Settled string
}

// Port is the launcher's side of the worker: what it takes and what it gives.
// None of its functions blocks, and none runs inside a transaction.
type Port struct {
	// Ready receives after orders were committed; it is buffered by one.
	Ready <-chan struct{}
	// Take hands over every committed order, in commit order.
	Take func() []Order
	// Live is the last look before a launch: "" to go on, else why not
	// ("stopping", "disabled", "removed"). It reads memory only.
	Live func(*Launch) (refusal string)
	// Report offers the end of a run. The worker keeps it until a commit names
	// the run; the launcher need not offer it twice.
	Report func(Outcome)
	// Progress says that a run's process exists.
	Progress func(Progress)
	// Done says that the launcher has ended everything it held and will report
	// no more: the worker may stop.
	Done func()
}
