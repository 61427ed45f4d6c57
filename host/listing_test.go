package host

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-scheduler/rota/worker/job"
)

// However long it was kept, and whatever was done in between, a list is the one
// that looking at all jobs anew gives.
func TestListIsTheSameWithAndWithoutWhatWasKept(t *testing.T) {
	r := newRig(t, nil)
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, seed))
	var ids []string
	for step := range 60 {
		switch n := rng.IntN(5); {
		case n < 2 || len(ids) == 0:
			ids = append(ids, r.addJob(fmt.Sprintf("job %d", step)))
		case n == 2:
			i := rng.IntN(len(ids))
			r.ask("cron.remove", `{"id":"`+ids[i]+`"}`)
			ids = append(ids[:i], ids[i+1:]...)
		case n == 3:
			r.ask("cron.update", fmt.Sprintf(`{"id":%q,"patch":{"enabled":%t}}`, ids[rng.IntN(len(ids))], rng.IntN(2) == 0))
		default:
			r.ask("cron.update", fmt.Sprintf(`{"id":%q,"patch":{"schedule":{"kind":"every","everyMs":%d}}}`, ids[rng.IntN(len(ids))], 3_600_000+rng.IntN(1000)))
		}
		if rng.IntN(20) == 0 {
			r.listing.drop()
		}
		p := job.ListParams{Enabled: []string{"enabled", "disabled", "all"}[rng.IntN(3)], Limit: 1 + rng.IntN(10), Offset: rng.IntN(10), DeliveryPreviews: true}
		kept, snap := r.listing.page(r.opts.Worker, p)
		got, err := kept.Render(rowsOf(snap), &r.listing.sheets)
		if err != nil {
			t.Fatal(err)
		}
		anew := job.Select(briefs(snap), rowsOf(snap), p)
		want, err := anew.Render(rowsOf(snap), nil)
		if err != nil || string(got) != string(want) {
			t.Fatalf("seed %d, step %d, %+v: %v\n got %s\nwant %s", seed, step, p, err, got, want)
		}
	}
}
