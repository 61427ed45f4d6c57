package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/rota-scheduler/rota/schedule"
)

// nextQuery is one question of next; in a batch, one line.
type nextQuery struct {
	ID       json.RawMessage `json:"id"`
	Expr     *string         `json:"expr"`
	EveryMs  json.RawMessage `json:"everyMs"`
	At       *string         `json:"at"`
	TZ       string          `json:"tz"`
	AnchorMs json.RawMessage `json:"anchorMs"`
	From     *string         `json:"from"`
	NowMs    *int64          `json:"nowMs"`
	DST      string          `json:"dst"`
	N        int             `json:"n"`

	everyMs, anchorMs *int64
}

// maxBatchLine bounds one line of a batch.
const maxBatchLine = 64 << 10

type batchAnswer struct {
	ID        json.RawMessage `json:"id"`
	Next      []string        `json:"next,omitempty"`
	FixedTime *bool           `json:"fixedTime,omitempty"`
	Error     *batchError     `json:"error,omitempty"`
}

type batchError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Field   string `json:"field,omitempty"`
}

// nextBatch answers line by line, so that a caller may keep it running and ask
// one at a time. A line that is wrong is answered, not the end.
func (a *app) nextBatch(ctx context.Context, nowMs int64) error {
	lines := bufio.NewScanner(a.in)
	lines.Buffer(make([]byte, 0, 4096), maxBatchLine)
	for lines.Scan() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := a.printJSONLine(answerLine(line, nowMs)); err != nil {
			return err
		}
		if err := a.out.Flush(); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return usage("a line of the batch has more than %d bytes", maxBatchLine)
	}
	return lines.Err()
}

func answerLine(line []byte, nowMs int64) batchAnswer {
	var q nextQuery
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	err := dec.Decode(&q)
	if err == nil {
		if _, end := dec.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one value on the line")
		}
	}
	answer := batchAnswer{ID: q.ID}
	if len(answer.ID) == 0 {
		answer.ID = idOf(line)
	}
	var p preview
	if err == nil {
		p, err = q.answer(nowMs)
	} else {
		err = notAQuestion(err)
	}
	if err != nil {
		f := failureOf(err)
		answer.Error = &batchError{Code: f.Code, Message: f.Message, Hint: f.Hint, Field: f.Field}
		return answer
	}
	answer.Next = p.Next
	if p.Kind == "cron" {
		answer.FixedTime = &p.FixedTime
	}
	return answer
}

// idOf finds the id of a line that is no question, so that its answer can be
// told from others.
func idOf(line []byte) json.RawMessage {
	var q struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &q) != nil || len(q.ID) == 0 {
		return json.RawMessage("null")
	}
	return q.ID
}

// notAQuestion words what the decoder found.
func notAQuestion(err error) *failure {
	f := &failure{Code: "syntax", Message: "not a question: " + err.Error(), Hint: `{"id":1,"expr":"0 9 * * *","tz":"Europe/Oslo"}`}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		f.Field, f.Message = wrong.Field, "not a question: "+wrong.Field+" cannot be a "+wrong.Value
	}
	return f
}

// numberIn reads a number that may stand as a text; nil where there is none.
func numberIn(raw json.RawMessage, parse func(string) (int64, error)) (*int64, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	text := string(raw)
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		text = quoted
	}
	ms, err := parse(text)
	return &ms, err
}

func (q *nextQuery) answer(nowMs int64) (preview, error) {
	chosen := 0
	for _, given := range []bool{q.Expr != nil, q.EveryMs != nil, q.At != nil} {
		if given {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return preview{}, &failure{Code: "syntax", Message: "exactly one of expr, everyMs and at is needed"}
	case q.N < 0 || q.N > maxNext:
		return preview{}, &failure{Code: schedule.CodeRange, Field: "n", Message: "n must be from 1 to 1000"}
	case q.N == 0:
		q.N = 1
	}
	zone, err := q.zone()
	if err != nil {
		return preview{}, err
	}
	if q.everyMs, err = numberIn(q.EveryMs, schedule.ParseEveryMs); err != nil {
		return preview{}, err
	}
	if q.anchorMs, err = numberIn(q.AnchorMs, schedule.ParseAnchorMs); err != nil {
		return preview{}, err
	}
	switch {
	case q.From != nil:
		fromMs, err := schedule.ParseAt(*q.From, zone)
		if err != nil {
			return preview{}, err
		}
		q.NowMs = &fromMs
	case q.NowMs == nil:
		q.NowMs = &nowMs
	}
	return q.preview(zone)
}

// zone is the zone that was named; a cron expression without one has this
// machine's. Nil = none: a time without an offset is UTC then.
func (q *nextQuery) zone() (*schedule.Zone, error) {
	if q.TZ != "" {
		return schedule.LoadZone(q.TZ)
	}
	if q.Expr != nil {
		return hostZone()
	}
	return nil, nil
}

// preview answers a question whose now is set.
func (q *nextQuery) preview(zone *schedule.Zone) (preview, error) {
	p := preview{Next: []string{}, Warnings: []string{}, zone: zone}
	var s schedule.Schedule
	switch {
	case q.Expr != nil:
		expr, err := schedule.ParseExpression(*q.Expr)
		if err != nil {
			return p, err
		}
		rule := schedule.Vixie
		if q.DST != "" {
			if rule, err = schedule.ParseDST(q.DST); err != nil {
				return p, err
			}
		}
		s = schedule.Cron(expr, zone, rule, 0)
		p.Kind, p.Expr, p.TZ, p.FixedTime = "cron", expr.Text(), zone.Name(), expr.FixedTime()
		p.Description = expr.Describe()
		p.Warnings = append(p.Warnings, expr.Warnings()...)
	case q.everyMs != nil:
		anchorMs := *q.NowMs
		if q.anchorMs != nil {
			anchorMs = *q.anchorMs
		}
		every, err := schedule.Every(*q.everyMs, anchorMs)
		if err != nil {
			return p, err
		}
		s = every
		p.Kind, p.EveryMs, p.Description = "every", *q.everyMs, every.Describe()
	default:
		atMs, err := schedule.ParseAt(*q.At, zone)
		if err != nil {
			return p, err
		}
		if atMs <= *q.NowMs {
			return p, &failure{Exit: exitFailed, Code: schedule.CodePast, Field: "at",
				Message: "at is in the past: " + schedule.FormatInstant(atMs), Hint: "it is " + schedule.FormatInstant(*q.NowMs) + " now"}
		}
		s = schedule.At(atMs)
		p.Kind, p.Description = "at", s.Describe()
	}
	for afterMs, i := *q.NowMs, 0; i < q.N; i++ {
		slotMs, ok := s.Next(afterMs)
		if !ok {
			break
		}
		p.Next = append(p.Next, schedule.FormatInstant(slotMs))
		afterMs = slotMs
	}
	if len(p.Next) == 0 {
		return p, &failure{Exit: exitFailed, Code: schedule.CodeNever, Message: "this schedule never fires after " + schedule.FormatInstant(*q.NowMs),
			Hint: "look at its years and dates"}
	}
	return p, nil
}
