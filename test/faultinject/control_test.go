package faultinject

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestLedgerOverHTTP(t *testing.T) {
	t.Parallel()
	u, c := newTestUpstream(t, Mix{OpCreate: {InternalAfter: 1}})
	post(t, c, u.URL()+paths[OpCreate], "job1", videoBody)
	post(t, c, u.URL()+paths[OpChat], "chat1", chatBody)
	await(t, "the end of both posts", func() bool {
		posts := u.Ledger()
		return len(posts) == 2 && !posts[0].Ended.IsZero() && !posts[1].Ended.IsZero()
	})
	got, err := ReadRecord(t.Context(), u.URL())
	if err != nil {
		t.Fatal(err)
	}
	// JSON carries neither time zones nor monotonic clocks.
	if diff := cmp.Diff(u.Record(), got, cmpopts.EquateApproxTime(0), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if len(got.Posts) != 2 || len(got.Tasks) != 1 || got.Faults["create/500_accepted"] != 1 {
		t.Errorf("the record is %+v", got)
	}
}

func TestMixOverHTTP(t *testing.T) {
	t.Parallel()
	u, c := newTestUpstream(t, nil)
	for body, want := range map[string]int{
		`{"create":{"429":1}}`:    http.StatusNoContent,
		`{"create":{"flood":1}}`:  http.StatusBadRequest,
		`{"create":{"429":1.01}}`: http.StatusBadRequest,
		`nonsense`:                http.StatusBadRequest,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, u.URL()+"/faultinject/mix", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if r := send(c, req, ""); r.status != want {
			t.Errorf("%s: %+v, want %d", body, r, want)
		}
	}
	if r := post(t, c, u.URL()+paths[OpCreate], "job1", videoBody); r.status != http.StatusTooManyRequests {
		t.Errorf("the create: %+v", r)
	}
}

func TestReadRecordOfNobody(t *testing.T) {
	t.Parallel()
	u, _ := newTestUpstream(t, nil)
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecord(t.Context(), u.URL()); err == nil {
		t.Error("a closed upstream has a ledger")
	}
}

func TestUpstreamRefusesABadMix(t *testing.T) {
	t.Parallel()
	bad := Mix{OpChat: {TaskLate: 1}}
	if _, err := NewUpstream(UpstreamOptions{Faults: bad}); err == nil {
		t.Error("NewUpstream took it")
	}
	u, _ := newTestUpstream(t, nil)
	if err := u.SetMix(bad); err == nil {
		t.Error("SetMix took it")
	}
	if _, err := NewUpstream(UpstreamOptions{Addr: strings.TrimPrefix(u.URL(), "http://")}); err == nil {
		t.Error("two upstreams listen on one address")
	}
}
