package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the renderings")

const (
	chartDir = "../../deploy/helm/genbus"
	dataDir  = "../../deploy/helm/testdata"
)

func sets(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir, "*.values.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatal("too few sets of values", files, err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[strings.TrimSuffix(filepath.Base(f), ".values.yaml")] = f
	}
	return out
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// values reads a value file. It overrides the chart's values, as in "helm template --values".
func values(t *testing.T, file string) chartutil.Values {
	t.Helper()
	v, err := chartutil.ReadValuesFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render returns the rendered files of a release named genbus in the namespace video, without a
// cluster.
func render(c *chart.Chart, v chartutil.Values) (map[string]string, error) {
	all, err := renderValues(c, v)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

func renderValues(c *chart.Chart, v chartutil.Values) (chartutil.Values, error) {
	release := chartutil.ReleaseOptions{Name: "genbus", Namespace: "video", Revision: 1, IsInstall: true}
	kubernetes := chartutil.DefaultCapabilities.Copy()
	kubernetes.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	return chartutil.ToRenderValues(c, v, release, kubernetes) // validates the schema
}

// manifest joins the Kubernetes documents, sorted by file name.
func manifest(files map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(files[name]) != "" {
			fmt.Fprintf(&b, "---\n# %s\n%s\n", name, strings.TrimSpace(files[name]))
		}
	}
	return b.String()
}

func TestChartIsRendered(t *testing.T) {
	t.Parallel()
	for name, file := range sets(t) {
		files, err := render(load(t), values(t, file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := manifest(files)
		got = "# Rendered from the chart and values with hash " + hash(t) + "\n" + got
		golden := filepath.Join(dataDir, name+".rendered.yaml")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || got != string(want) {
			t.Errorf("%s is stale; run `go test -C tools/helm . -update` and review the changes (%v)", golden, err)
		}
		for i, document := range strings.Split(got, "---\n")[1:] {
			if err := decode(document); err != nil {
				t.Errorf("%s, document %d: %v\n%s", name, i+1, err, document)
			}
		}
	}
}

// hash covers the files of the chart and the value files. Package deploy compares it to detect
// stale renderings.
func hash(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	root := filepath.Dir(chartDir)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, ".rendered.yaml") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// serviceMonitor has the fields of the Prometheus operator's kind that the chart uses.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Scheme   string `json:"scheme"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

var kinds = map[string]func() any{
	"apps/v1 Deployment":                      func() any { return &appsv1.Deployment{} },
	"v1 ConfigMap":                            func() any { return &corev1.ConfigMap{} },
	"v1 Service":                              func() any { return &corev1.Service{} },
	"policy/v1 PodDisruptionBudget":           func() any { return &policyv1.PodDisruptionBudget{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return &serviceMonitor{} },
}

// decode decodes a document of a known kind and rejects unknown fields.
func decode(document string) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
		return err
	}
	of, ok := kinds[meta.APIVersion+" "+meta.Kind]
	if !ok {
		return fmt.Errorf("unknown kind %s %s", meta.APIVersion, meta.Kind)
	}
	return yaml.UnmarshalStrict([]byte(document), of())
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]bool{
		"apiVersion: v1\nkind: Service\nspec: {type: ClusterIP}": true,
		"apiVersion: v1\nkind: Service\nspec: {tipe: ClusterIP}": false,
		"apiVersion: v1\nkind: Secret":                           false,
	} {
		if err := decode(document); (err == nil) != want {
			t.Errorf("%q: %v", document, err)
		}
	}
}

// TestChartIsLinted proves that "helm lint" accepts the chart as it is in the repository. Helm would
// refuse a chart whose dependencies were not fetched.
func TestChartIsLinted(t *testing.T) {
	t.Parallel()
	for name, file := range sets(t) {
		for _, m := range lint.All(chartDir, values(t, file), "video", false).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// TestMistakesAreRefused proves that wrong values are rejected with an error that names the field.
func TestMistakesAreRefused(t *testing.T) {
	t.Parallel()
	for change, says := range map[string]string{
		"existingSecret: ''":          "existingSecret is empty",
		"config: {api_keys: []}":      "config.api_keys is empty",
		"config: {nats: {url: null}}": "config.nats.url is empty",
		"config: {http: {tls: {cert_file: a, key_file: b, client_ca_file: c}}}": "client_ca_file",
		"config: {http: {addr: 127.0.0.1:80}}":                                  "http",
		"config: {shutdown: {delay: 1s}}":                                       "config",
		"replicas: two":                                                         "replicas",
		"replica: 2":                                                            "replica",
		"podDisruptionBudget: {minAvailable: 1}":                                "minAvailable",
		"nats: {enabled: true}":                                                 "nats",
	} {
		if _, err := render(load(t), changed(t, "external", change)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// TestPodsFollowTheSecret proves that the pods change when the Secret in the cluster changes, and
// that a Secret that does not exist yet is no error.
func TestPodsFollowTheSecret(t *testing.T) {
	t.Parallel()
	deployment := func(secretVersion string) string {
		t.Helper()
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/api/v1":
				fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","namespaced":true,"kind":"Secret"}]}`)
			case r.URL.Path == "/api/v1/namespaces/video/secrets/genbus" && secretVersion != "":
				fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"genbus","resourceVersion":%q}}`, secretVersion)
			default:
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			}
		}))
		defer api.Close()
		c := load(t)
		all, err := renderValues(c, values(t, sets(t)["external"]))
		if err != nil {
			t.Fatal(err)
		}
		files, err := engine.RenderWithClient(c, all, &rest.Config{Host: api.URL})
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := yaml.UnmarshalStrict([]byte(files["genbus/templates/deployment.yaml"]), &d); err != nil {
			t.Fatal(err)
		}
		return d.Spec.Template.Annotations["version/secret"]
	}
	if got := []string{deployment(""), deployment("7"), deployment("8")}; !slices.Equal(got, []string{"", "7", "8"}) {
		t.Errorf("the annotations are %q", got)
	}
}

// TestConfigurationIsReloadable proves that the container mounts the directories of the ConfigMap
// and the Secret, because Kubernetes never updates a file mounted with subPath.
func TestConfigurationIsReloadable(t *testing.T) {
	t.Parallel()
	for name, file := range sets(t) {
		files, err := render(load(t), values(t, file))
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := yaml.UnmarshalStrict([]byte(files["genbus/templates/deployment.yaml"]), &d); err != nil {
			t.Fatal(err)
		}
		for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
			if m.SubPath != "" {
				t.Errorf("%s: %s is mounted with subPath", name, m.MountPath)
			}
		}
	}
}

// TestLoginToNATS proves that the service logs in with a password file by default, and that another
// login replaces it.
func TestLoginToNATS(t *testing.T) {
	t.Parallel()
	type login struct {
		User         string `json:"user"`
		PasswordFile string `json:"password_file"`
		PasswordEnv  string `json:"password_env"`
		CredsFile    string `json:"creds_file"`
	}
	const file = "/etc/genbus/secrets/nats-password"
	for change, want := range map[string]login{
		"{}":                              {User: "service", PasswordFile: file},
		"{config: {nats: {user: video}}}": {User: "video", PasswordFile: file},
		"{config: {nats: {password_file: /other}}}":  {User: "service", PasswordFile: "/other"},
		"{config: {nats: {password_env: PASSWORD}}}": {User: "service", PasswordEnv: "PASSWORD"},
		"{config: {nats: {creds_file: /creds}}}":     {CredsFile: "/creds"},
		"{config: {nats: {user: ''}}}":               {},
	} {
		files, err := render(load(t), changed(t, "external", change))
		if err != nil {
			t.Errorf("%s: %v", change, err)
			continue
		}
		var m corev1.ConfigMap
		var config struct {
			NATS login `json:"nats"`
		}
		if err := yaml.Unmarshal([]byte(files["genbus/templates/configmap.yaml"]), &m); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(m.Data["genbus.yaml"]), &config); err != nil || config.NATS != want {
			t.Errorf("%s: %+v, want %+v (%v)", change, config.NATS, want, err)
		}
	}
}

// changed returns a set of values with change merged over it.
func changed(t *testing.T, set, change string) chartutil.Values {
	t.Helper()
	over, err := chartutil.ReadValues([]byte(change))
	if err != nil {
		t.Fatal(err)
	}
	return chartutil.MergeTables(over, values(t, sets(t)[set]))
}
