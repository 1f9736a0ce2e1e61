package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// digest is the SHA-256 sum of a file in dist.
type digest struct{ name, sha256 string }

// sumsFile has the checksums of all files except itself and its signature.
const sumsFile = "SHA256SUMS"

func (r *release) digests() (out []digest, err error) {
	files := os.DirFS(r.dist)
	err = fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || name == sumsFile || name == sumsFile+".sig" {
			return err
		}
		sum, err := sha256File(files, name)
		out = append(out, digest{name, sum})
		return err
	})
	return out, err
}

func sha256File(files fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(files, name)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// writeProvenance writes an in-toto statement with the provenance of all files, as SLSA 1.0
// defines it. It is signed with the checksums.
func (r *release) writeProvenance(flags []string) error {
	type object = map[string]any
	digests, err := r.digests()
	if err != nil {
		return err
	}
	var subjects []object
	for _, d := range digests {
		subjects = append(subjects, object{"name": d.name, "digest": object{"sha256": d.sha256}})
	}
	source := "git+" + repository + "@refs/tags/" + r.tag
	script := repository + "/blob/" + r.tag + "/deploy/release"
	data, err := json.MarshalIndent(object{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":            script,
				"externalParameters":   object{"source": source},
				"internalParameters":   object{"go": r.goVersion, "flags": flags},
				"resolvedDependencies": []object{{"uri": source, "digest": object{"gitCommit": r.commit}}},
			},
			"runDetails": object{"builder": object{"id": script}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.write("genbus_"+r.tag+"_provenance.json", data)
}

// checksums returns the content of sumsFile.
func (r *release) checksums() ([]byte, error) {
	digests, err := r.digests()
	var out bytes.Buffer
	for _, d := range digests {
		fmt.Fprintf(&out, "%s  %s\n", d.sha256, d.name)
	}
	return out.Bytes(), err
}

func (r *release) writeChecksums() error {
	sums, err := r.checksums()
	if err != nil {
		return err
	}
	return r.write(sumsFile, sums)
}

// verify returns an error if the files do not match the checksums.
func (r *release) verify() error {
	want, err := os.ReadFile(filepath.Join(r.dist, sumsFile))
	if err != nil {
		return err
	}
	got, err := r.checksums()
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("the files in %s do not match SHA256SUMS; build the release again", r.dist)
	}
	return err
}
