package telemetry

import (
	"encoding/json"
	"net/http"
)

// healthAnswer is the body of /healthz, /readyz and /readyz/jobs.
type healthAnswer struct {
	Status  string   `json:"status"`
	Reasons []Reason `json:"reasons,omitempty"`
}

// Healthz answers 200 {"status":"ok"} while the process runs. It ignores the state of the broker,
// because a restart would not fix the broker.
func (h *Health) Healthz() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeHealth(w, http.StatusOK, healthAnswer{Status: "ok"})
	})
}

// Readyz answers 200 {"status":"ready"} or, while draining, 503 with status not_ready and the
// reasons: [{"check":"draining","reason":"draining"}]. It does not contact the broker.
func (h *Health) Readyz() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ready, reasons := h.Ready()
		writeReadiness(w, ready, reasons)
	})
}

// JobsReadyz is like Readyz but reports ReadyForJobs.
func (h *Health) JobsReadyz() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ready, reasons := h.ReadyForJobs(r.Context())
		writeReadiness(w, ready, reasons)
	})
}

func writeReadiness(w http.ResponseWriter, ready bool, reasons []Reason) {
	if !ready {
		writeHealth(w, http.StatusServiceUnavailable, healthAnswer{Status: "not_ready", Reasons: reasons})
		return
	}
	writeHealth(w, http.StatusOK, healthAnswer{Status: "ready"})
}

func writeHealth(w http.ResponseWriter, status int, answer healthAnswer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	// The prober may have disconnected.
	_ = e.Encode(answer)
}
