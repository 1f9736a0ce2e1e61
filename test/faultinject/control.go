package faultinject

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// controls returns the handler through which other processes use an Upstream.
func (u *Upstream) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /faultinject/ledger", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, u.Record()) // a disconnected client is detected on its connection
	})
	mux.HandleFunc("PUT /faultinject/mix", func(w http.ResponseWriter, r *http.Request) {
		var m Mix
		err := json.UnmarshalRead(r.Body, &m)
		if err == nil {
			err = u.SetMix(m)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// ReadRecord reads the ledger of the Upstream at url, in this or another process.
func ReadRecord(ctx context.Context, url string) (Record, error) {
	var r Record
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/faultinject/ledger", nil)
	if err != nil {
		return r, fmt.Errorf("read the ledger: %w", err)
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		return r, fmt.Errorf("read the ledger: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return r, fmt.Errorf("read the ledger at %s: status %d", url, resp.StatusCode)
	}
	if err := json.UnmarshalRead(resp.Body, &r); err != nil {
		return r, fmt.Errorf("read the ledger at %s: %w", url, err)
	}
	return r, nil
}

// oneShot keeps no connections, so each request reaches the server that is listening at that time.
var oneShot = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
