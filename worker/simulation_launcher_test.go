package worker

import (
	"fmt"
	"time"
)

// simLauncher is the launcher as a model: it announces a run in the launch log
// before any effect, lets it run for a while, and reports its end, now and
// then twice or late. A kill takes all but the launch log.
type simLauncher struct {
	runs []*simRun
	// late are reports that were made already and may be made again.
	late []Outcome
	// effects counts starts of processes by receipt: never more than one.
	effects map[string]int
	// unstarted are runs whose launch was lost before any effect: they alone may
	// be launched again. lost are those of the present death, of which the next
	// start may not be sure.
	unstarted map[string]bool
	lost      []string
}

// simRun is one run in the launcher's hands.
type simRun struct {
	l        *Launch
	receipt  string
	began    bool // announced and started
	endsMs   int64
	outcome  Outcome
	reported bool
	delivers bool // what is under way is its delivery
}

func (l *simLauncher) init() { l.effects, l.unstarted = map[string]int{}, map[string]bool{} }

// executing counts the runs that have a place: handed out, and not reported.
func (l *simLauncher) executing() (n int) {
	for _, r := range l.runs {
		if !r.reported && !r.delivers {
			n++
		}
	}
	return n
}

// taken is an order in the launcher's hands.
func (s *simulation) taken(o Order) {
	l := &s.launch
	switch {
	case o.Launch != nil:
		s.say("takes launch %s", o.Launch.RunID)
		l.runs = append(l.runs, &simRun{l: o.Launch, receipt: o.Launch.ReceiptID})
	case o.Cancel != nil:
		s.say("takes cancel %s", o.Cancel.Reason)
		for _, r := range l.runs {
			if r.receipt == o.Cancel.ReceiptID && !r.reported && r.began && !s.chance(4) { // else its end is on its way
				r.endsMs = s.m.monoMs + s.upTo(20*time.Second).Milliseconds()
				r.outcome.Status, r.outcome.Kind, r.outcome.Error = StatusError, o.Cancel.Reason, o.Cancel.Message
			}
		}
	case o.Deliver != nil:
		s.say("takes delivery of %s", o.Deliver.RunID)
		s.launch.forget(o.Deliver.ReceiptID)
		s.m.sends(o.Deliver.ReceiptID)
		end := DeliveryEnd{Status: pick(s, Delivered, NotDelivered, DeliveryUnknown), Answered: o.Deliver.Answered + 1}
		if end.Status != Delivered {
			end.Error = "the receiver answered 500"
		}
		l.runs = append(l.runs, &simRun{receipt: o.Deliver.ReceiptID, began: true, delivers: true,
			endsMs: s.m.monoMs + s.upTo(time.Minute).Milliseconds(), outcome: Outcome{ReceiptID: o.Deliver.ReceiptID, Delivery: &end}})
	case o.Settled != "":
		s.m.forget(o.Settled)
		l.forget(o.Settled)
	}
}

func (l *simLauncher) forget(receipt string) {
	kept := l.runs[:0:0]
	for _, r := range l.runs {
		if r.receipt != receipt {
			kept = append(kept, r)
		}
	}
	l.runs = kept
}

// sends notes one delivery attempt in the launch log, as is done before it.
func (m *machine) sends(receiptID string) {
	for i := range m.log {
		if m.log[i].ReceiptID == receiptID {
			m.log[i].Sends++
		}
	}
}

// launcherWorks takes some runs a step on: the live check, the launch log, the
// effect.
func (s *simulation) launcherWorks() {
	for _, r := range s.launch.runs {
		if !r.began && !r.reported && !s.chance(3) {
			s.begin(r)
		}
	}
	s.launch.due(s)
}

// begin takes a run from its order to its process, or to its refusal.
func (s *simulation) begin(r *simRun) {
	switch why := s.m.w.live(r.l); why {
	case "":
	case "stopping":
		s.neverStarted(r)
		return
	default:
		s.say("refused %s: %s", r.l.RunID, why)
		s.report(r, Outcome{Status: StatusSkipped, Kind: KindRefused, Error: "refused: " + why, ErrorReason: "unknown"})
		return
	}
	s.effect(r)
	took := s.upTo(pick(s, 2*time.Second, 30*time.Second, 4*time.Minute))
	r.endsMs = s.m.monoMs + took.Milliseconds()
	r.outcome = Outcome{Status: pick(s, StatusOK, StatusOK, StatusError), Kind: KindExit, StartedAtMs: s.m.nowMs, DurationMs: took.Milliseconds()}
	if r.outcome.Status == StatusError {
		r.outcome.Error, r.outcome.ErrorReason = "command exited with code 3", pick(s, "unknown", "unknown", "network", "timeout")
		r.outcome.Kind = pick(s, KindExit, KindSignal, KindTimeout, KindSpawnError)
	}
	s.m.w.progress(Progress{ReceiptID: r.receipt, StartedAtMs: s.m.nowMs})
	if s.chance(3) {
		s.m.w.orders.signal() // a wake-up for nothing
	}
}

// effect is the moment that must come once for a run, and only after the commit
// of its activation.
func (s *simulation) effect(r *simRun) {
	s.m.announce(r.receipt)
	r.began = true
	s.launch.effects[r.receipt]++
	s.say("begins %s", r.l.RunID)
	if n := s.launch.effects[r.receipt]; n > 1 {
		s.fail("run %s of %s started %d times", r.l.RunID, r.l.JobID, n)
	}
}

func (s *simulation) report(r *simRun, o Outcome) {
	o.ReceiptID, o.EndedAtMs = r.receipt, s.m.nowMs
	if o.Delivery != nil {
		o.Delivery.EndedAtMs = s.m.nowMs
	}
	r.reported = true
	s.m.w.outcomes.put(o)
	if s.chance(6) {
		s.m.w.outcomes.put(o)
	}
	if o.Kind != KindRefused {
		s.launch.late = append(s.launch.late, o)
	}
}

func (s *simulation) neverStarted(r *simRun) {
	s.say("takes back %s", r.l.RunID)
	s.launch.unstarted[r.receipt] = true
	s.report(r, Outcome{Status: StatusError, Kind: KindRefused, Interrupted: KindShutdown, Error: "the daemon stopped before the run started"})
}

// due reports what has ended by now; now and then it is told later.
func (l *simLauncher) due(s *simulation) {
	for _, r := range l.runs {
		if r.began && !r.reported && r.endsMs <= s.m.monoMs && !s.chance(4) {
			s.say("ends %s", r.name())
			s.report(r, r.outcome)
		}
	}
}

func (r *simRun) name() string {
	if r.l == nil {
		return "delivery"
	}
	return fmt.Sprint(r.l.RunID, " ", r.outcome.Status)
}

// launcherRepeats reports an end again, perhaps long after it was recorded.
func (s *simulation) launcherRepeats() {
	if n := len(s.launch.late); n > 0 {
		o := s.launch.late[max(0, n-1-s.rng.IntN(8))]
		s.say("repeats a report: %s", o.Status)
		s.m.w.outcomes.put(o)
	}
}

// dies is the launcher at a kill: it may have begun what was in its lane, and
// everything but the launch log is gone.
func (l *simLauncher) dies(s *simulation) {
	for _, o := range s.m.w.orders.take(0) {
		if o.Launch == nil {
			continue
		}
		r := &simRun{l: o.Launch, receipt: o.Launch.ReceiptID}
		if s.m.away || s.chance(2) {
			l.lost = append(l.lost, r.receipt)
			s.say("the launch of %s is lost", o.Launch.RunID)
			continue
		}
		s.effect(r)
		s.rules.orphaned = append(s.rules.orphaned, r.receipt)
	}
	for _, r := range l.runs {
		if !r.began && !r.reported {
			l.lost = append(l.lost, r.receipt)
			s.say("the launch of %s is lost", r.l.RunID)
		}
	}
	l.runs, l.late = nil, nil
}

// stops ends every run as the daemon's stop does.
func (l *simLauncher) stops(s *simulation) {
	for _, r := range l.runs {
		switch {
		case r.reported:
		case r.delivers:
			r.outcome.Delivery.Stopped = s.chance(2)
			s.report(r, r.outcome)
		case !r.began:
			s.neverStarted(r)
		case s.chance(2):
			s.report(r, Outcome{Status: StatusError, Kind: KindShutdown, Interrupted: KindShutdown, Error: "the daemon stopped before the run ended",
				StartedAtMs: s.m.nowMs})
		default:
			s.report(r, r.outcome)
		}
	}
}

// endAll begins and ends everything.
func (l *simLauncher) endAll(s *simulation) {
	for _, r := range l.runs {
		if !r.began && !r.reported {
			s.begin(r)
		}
		if !r.reported {
			if r.outcome.Status == StatusError && r.outcome.Interrupted == "" { // it would be tried again for hours
				r.outcome.Status, r.outcome.Error, r.outcome.ErrorReason = StatusOK, "", ""
			}
			s.report(r, r.outcome)
		}
	}
}
