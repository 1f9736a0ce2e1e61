package sandbox

import (
	"encoding/json"
	"net/http"
	"time"
)

const maxTasks = 100

// listed is a task in the list, without its prompt.
type listed struct {
	ID string `json:"id"`
	// Key is the Idempotency-Key of the create. genbus sends the job ID.
	Key       string    `json:"idempotency_key,omitempty"`
	Model     string    `json:"model"`
	Status    string    `json:"status"` // queued, in_progress, completed or failed
	CreatedAt time.Time `json:"created_at"`
}

// getTasks lists the newest tasks of all protocols, newest first.
func (s *Sandbox) getTasks(w http.ResponseWriter, r *http.Request) {
	key, now := r.URL.Query().Get("key"), time.Since(s.start)
	out := struct {
		Tasks []listed `json:"tasks"`
	}{Tasks: []listed{}}
	for _, t := range s.tasks.newest(maxTasks, func(t *task) bool { return key == "" || t.key == key }) {
		out.Tasks = append(out.Tasks, listed{
			ID: t.id, Key: t.key, Model: t.model, Status: flatWords[t.at(now, &flatWords).outcome], CreatedAt: s.start.Add(t.created).UTC(),
		})
	}
	body, err := json.Marshal(out)
	if err != nil {
		refuseNested(w, http.StatusInternalServerError, "internal_error", err.Error())
		return
	}
	writeJSON(w, http.StatusOK, body)
}
