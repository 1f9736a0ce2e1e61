package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Model is one entry of an upstream's model list.
type Model struct {
	ID string
	// Created is Unix seconds, 0 when unknown.
	Created int64
	// OwnedBy is empty when unknown.
	OwnedBy string
	// Raw is the whole entry as JSON.
	Raw []byte
}

// ListModels asks GET /v1/models. Entries without an id are left out. The error
// is always an *Error with Op "models".
func ListModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	const op = "models"
	req, err := ep.NewRequest(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return nil, NotSent(op, err)
	}
	resp, err := ep.Do(op, req)
	if err != nil {
		return nil, err
	}
	body, err := ep.AppendBody(op, resp, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		said, _ := ep.ResponseError(op, resp, body)
		return nil, said
	}
	models, err := parseModels(body)
	if err != nil {
		return nil, ep.bodyError(op, resp, err.Error(), err)
	}
	return models, nil
}

func parseModels(body []byte) ([]Model, error) {
	var list struct {
		Data []jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(body, &list, jsonOptions); err != nil {
		return nil, fmt.Errorf("the model list cannot be read: %w", err)
	}
	if list.Data == nil {
		return nil, errors.New("the model list has no data array")
	}
	models := make([]Model, 0, len(list.Data))
	for _, raw := range list.Data {
		fields, _ := object(raw)
		id := text(fields["id"])
		if id == "" {
			continue
		}
		models = append(models, Model{ID: id, Created: seconds(fields["created"]), OwnedBy: text(fields["owned_by"]), Raw: raw})
	}
	return models, nil
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
