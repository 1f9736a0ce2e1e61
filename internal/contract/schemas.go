package contract

import "strings"

// refPrefix begins schema references in both documents.
const refPrefix = "#/components/schemas/"

func ref(schema string) object { return object{"$ref": refPrefix + schema} }

// prune removes schemas that the document does not reference.
func prune(document object) {
	schemas := at(document, "components", "schemas")
	delete(at(document, "components"), "schemas")
	used := object{}
	follow(document, schemas, used)
	at(document, "components")["schemas"] = used
}

// follow adds every schema reachable from v to used.
func follow(v any, schemas, used object) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			follow(e, schemas, used)
		}
	case object:
		for key, e := range v {
			follow(e, schemas, used)
			name, isRef := strings.CutPrefix(text(e), refPrefix)
			if key != "$ref" || !isRef || used[name] != nil || schemas[name] == nil {
				continue
			}
			used[name] = schemas[name]
			follow(schemas[name], schemas, used)
		}
	}
}

// text returns v if it is a string, or "" otherwise.
func text(v any) string {
	s, _ := v.(string)
	return s
}
