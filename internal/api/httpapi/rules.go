package httpapi

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	contract "github.com/genbus/genbus/proto"
)

// operatorPrefix is the prefix of paths that need an operator key.
const operatorPrefix = "/genbus/v1/operator/"

// rule is a rule in proto/genbus/v1/http.yaml. It describes a path that the generated gateway
// serves.
type rule struct {
	method, path string
	// request is the type of the request message. body describes the message that clients send in
	// the body. It is nil if they send the fields of request in the query.
	request protoreflect.MessageType
	body    protoreflect.MessageDescriptor
}

func (r rule) pattern() string { return r.method + " " + r.path }

func (r rule) forOperators() bool { return strings.HasPrefix(r.path, operatorPrefix) }

// readRules reads http.yaml. It fails if a rule names no method of the contract or has no path.
func readRules() ([]rule, error) {
	var file struct {
		HTTP struct {
			Rules []struct {
				Selector          string
				Get, Post, Delete string
				Body              string
			}
		}
	}
	if err := yaml.Unmarshal(contract.HTTPRules, &file); err != nil {
		return nil, fmt.Errorf("http.yaml: %w", err)
	}
	rules := make([]rule, 0, len(file.HTTP.Rules))
	for _, r := range file.HTTP.Rules {
		found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(r.Selector))
		method, ok := found.(protoreflect.MethodDescriptor)
		path := cmp.Or(r.Get, r.Post, r.Delete)
		if !ok || path == "" {
			return nil, fmt.Errorf("http.yaml: %q is not a contract method, or its rule has no get, post or delete", r.Selector)
		}
		request, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
		if err != nil {
			return nil, fmt.Errorf("http.yaml: %s: %w", r.Selector, err)
		}
		verb := "GET"
		switch {
		case r.Post != "":
			verb = "POST"
		case r.Delete != "":
			verb = "DELETE"
		}
		rules = append(rules, rule{method: verb, path: path, request: request, body: bodyOf(request.Descriptor(), r.Body)})
	}
	return rules, nil
}

// bodyOf returns the part of a request that a rule's body names: all of it (*), a field, or nothing.
func bodyOf(request protoreflect.MessageDescriptor, part string) protoreflect.MessageDescriptor {
	switch part {
	case "":
		return nil
	case "*":
		return request
	default:
		return request.Fields().ByName(protoreflect.Name(part)).Message()
	}
}
