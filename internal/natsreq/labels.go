package natsreq

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/genbus/genbus/internal/errcode"
)

// maxLabelPairs bounds the work for one header. Admission allows far fewer pairs.
const maxLabelPairs = 64

// ParseLabels parses the value of a Genbus-Labels or genbus-labels header: "k=v,k=v". It trims
// spaces around keys and values. Commas, percent signs and non-ASCII characters must be
// percent-encoded. An empty value yields nil. Errors are *errcode.Error.
func ParseLabels(value string) (map[string]string, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	if strings.Count(value, ",") >= maxLabelPairs {
		return nil, invalidLabels("has more than %d pairs", maxLabelPairs)
	}
	labels := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		key, val, err := parseLabel(pair)
		if err != nil {
			return nil, err
		}
		if _, twice := labels[key]; twice {
			return nil, invalidLabels("has the key %q twice", errcode.Clip(key, 64))
		}
		labels[key] = val
	}
	return labels, nil
}

func parseLabel(pair string) (key, value string, err error) {
	key, value, ok := strings.Cut(pair, "=")
	if key = strings.TrimSpace(key); !ok || key == "" {
		return "", "", invalidLabels("must be k=v,k=v")
	}
	if key, err = url.PathUnescape(key); err == nil {
		value, err = url.PathUnescape(strings.TrimSpace(value))
	}
	if err != nil {
		return "", "", invalidLabels("has a percent sign that does not start an escape; write %%25")
	}
	return key, value, nil
}

func invalidLabels(format string, args ...any) error {
	return errcode.Invalid([]errcode.Violation{{Field: "labels", Description: fmt.Sprintf(format, args...)}})
}
