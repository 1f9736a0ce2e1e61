package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream/lax"
)

// Model is an entry of an upstream's model list.
type Model struct {
	ID string
	// Created is in Unix seconds, or 0 if unknown.
	Created int64
	// OwnedBy is empty if unknown.
	OwnedBy string
	// Raw is the whole entry as JSON.
	Raw []byte
}

// ListModels calls GET /v1/models. The answer is {"data":[..]}, possibly with other members, or a
// bare array. Entries without an ID are skipped. The error is always an *Error with Op "models".
func ListModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	const op = "models"
	resp, body, err := ep.Call(ctx, op, http.MethodGet, "/v1/models", nil, nil)
	if err != nil {
		return nil, err
	}
	models, err := parseModels(body)
	if err != nil {
		return nil, ep.Useless(op, err.Error(), resp, body, err)
	}
	return models, nil
}

func parseModels(body []byte) ([]Model, error) {
	entries, err := modelEntries(body)
	if err != nil {
		return nil, err
	}
	models := make([]Model, 0, len(entries))
	for _, raw := range entries {
		fields := membersOf(raw)
		id := text(fields["id"])
		if id == "" {
			continue
		}
		models = append(models, Model{ID: id, Created: seconds(fields["created"]), OwnedBy: text(fields["ownedby"]), Raw: raw})
	}
	return models, nil
}

func modelEntries(body []byte) ([]jsontext.Value, error) {
	var list struct {
		Data []jsontext.Value `json:"data"`
	}
	var into any = &list
	if jsontext.Value(body).Kind() == '[' {
		into = &list.Data
	}
	if err := json.Unmarshal(body, into, lax.Options); err != nil {
		return nil, fmt.Errorf("the model list cannot be read: %w", err)
	}
	if list.Data == nil {
		return nil, errors.New("the model list has no data array")
	}
	return list.Data, nil
}

func seconds(v jsontext.Value) int64 {
	if v.Kind() != '0' {
		return 0
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < 0 || f > 1e15 {
		return 0
	}
	return int64(f)
}
