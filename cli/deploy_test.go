package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/query/httpapi"
)

// deployed reads a file of deploy/.
func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// flagsOfRun checks that words are a command line of "run" whose flags there are, and gives the flags' values.
func flagsOfRun(t *testing.T, words []string) map[string]string {
	t.Helper()
	known := verbFlags(t, "run")
	if len(words) == 0 || words[0] != "run" {
		t.Fatal(words, "is not run")
	}
	values, name := map[string]string{}, ""
	for _, w := range words[1:] {
		if flag, ok := strings.CutPrefix(w, "--"); ok {
			var value string
			name, value, _ = strings.Cut(flag, "=")
			values[name] = value
			if !slices.ContainsFunc(known, func(f *kong.Flag) bool { return f.Name == name }) {
				t.Errorf("millrace run has no flag --%s", name)
			}
		} else {
			values[name] = w
		}
	}
	return values
}

// patientWith checks that what stops a node waits longer than the node may take.
func patientWith(t *testing.T, flags map[string]string, grace time.Duration) {
	t.Helper()
	shutdown, err := time.ParseDuration(flags["shutdown-timeout"])
	if err != nil || grace < shutdown+10*time.Second {
		t.Errorf("%s are not 10 s more than --shutdown-timeout %s: %v", grace, shutdown, err)
	}
}

// The unit starts a verb with flags that there are, waits long enough, and is one that systemd understands.
func TestUnit(t *testing.T) {
	text := deployed(t, "millrace.service")
	values := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(text, -1) {
		values[m[1]] = m[2]
	}
	words := strings.Fields(values["ExecStart"])
	flags := flagsOfRun(t, words[1:])
	grace, err := time.ParseDuration(values["TimeoutStopSec"])
	if err != nil {
		t.Fatal(err)
	}
	patientWith(t, flags, grace)
	for name, want := range map[string]string{"User": "millrace", "StateDirectoryMode": "0700", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "KillSignal": "SIGTERM",
		"CapabilityBoundingSet": "", "RestartPreventExitStatus": "2", "StateDirectory": filepath.Base(flags["state-dir"])} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // a machine without systemd: the rest is checked
	}
	// The program need not be installed here.
	unit := filepath.Join(t.TempDir(), "millrace.service")
	if err := os.WriteFile(unit, []byte(strings.Replace(text, words[0], "/bin/sh", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput()
	if mistakes := regexp.MustCompile(`(?m)^.*millrace\.service.*$`).FindAllString(string(out), -1); len(mistakes) > 0 {
		t.Errorf("%v: %s", err, strings.Join(mistakes, "\n"))
	}
}

// object is one of Kubernetes, as far as this test looks.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		MaxUnavailable int    `yaml:"maxUnavailable"`
		Service        string `yaml:"serviceName"`
		Selector       any
		Template       struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
		VolumeClaimTemplates []struct {
			Metadata struct{ Name string }
		} `yaml:"volumeClaimTemplates"`
	}
}

type podSpec struct {
	Grace           int            `yaml:"terminationGracePeriodSeconds"`
	SecurityContext map[string]any `yaml:"securityContext"`
	Containers      []container
	Volumes         []struct{ Name string }
}

type container struct {
	Args  []string
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Startup         probe          `yaml:"startupProbe"`
	Live            probe          `yaml:"livenessProbe"`
	Ready           probe          `yaml:"readinessProbe"`
	SecurityContext map[string]any `yaml:"securityContext"`
	VolumeMounts    []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port, Scheme string } `yaml:"httpGet"`
}

func objects(t *testing.T) map[string]object {
	t.Helper()
	all, d := map[string]object{}, yaml.NewDecoder(strings.NewReader(deployed(t, "kubernetes.yaml")))
	for {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[o.Kind] = o
	}
}

// The StatefulSet runs a verb with flags that there are, is asked at paths that there are, waits long enough, and may do little.
func TestStatefulSet(t *testing.T) {
	all := objects(t)
	set := all["StatefulSet"]
	pod := set.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatal(pod)
	}
	c := pod.Containers[0]
	flags := flagsOfRun(t, c.Args)
	patientWith(t, flags, time.Duration(pod.Grace)*time.Second)
	if !strings.HasSuffix(flags["listen"], ":8080") || c.Ports[0].ContainerPort != 8080 || flags["listen-cert"] == "" || flags["listen-key"] == "" || flags["listen-tokens"] == "" {
		t.Error(flags, c.Ports)
	}
	for path, p := range map[string]probe{"/startupz": c.Startup, "/livez": c.Live, "/readyz": c.Ready} {
		if p.HTTPGet.Path != path || p.HTTPGet.Port != c.Ports[0].Name || p.HTTPGet.Scheme != "HTTPS" || !slices.Contains(httpapi.Routes(), "GET "+path) {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if pod.SecurityContext["runAsNonRoot"] != true || c.SecurityContext["readOnlyRootFilesystem"] != true || c.SecurityContext["allowPrivilegeEscalation"] != false {
		t.Error(pod.SecurityContext, c.SecurityContext)
	}
	volumes := []string{set.Spec.VolumeClaimTemplates[0].Metadata.Name}
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	mounted := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounted[m.MountPath] = true
		if !slices.Contains(volumes, m.Name) {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	for _, name := range []string{"config", "listen-cert", "listen-key", "listen-tokens"} {
		if !mounted[filepath.Dir(flags[name])] {
			t.Errorf("--%s %s lies in nothing that is mounted", name, flags[name])
		}
	}
	if !mounted[flags["state-dir"]] {
		t.Error("the stores are lost with the pod")
	}
	labels, _ := json.Marshal(set.Spec.Template.Metadata.Labels)
	budget, _ := json.Marshal(all["PodDisruptionBudget"].Spec.Selector)
	service, _ := json.Marshal(all["Service"].Spec.Selector)
	if set.Spec.Service != all["Service"].Metadata.Name || !bytes.Equal(service, labels) || string(budget) != `{"matchLabels":`+string(labels)+"}" || all["PodDisruptionBudget"].Spec.MaxUnavailable != 1 {
		t.Error(string(labels), string(budget), string(service), set.Spec.Service)
	}
	if !strings.HasPrefix(flags["listen-advertised"], "$(POD_NAME)."+set.Spec.Service+":") {
		t.Error(flags["listen-advertised"])
	}
	code, _, complaints := checked(t, all["ConfigMap"].Data["node.yaml"], nil)
	if code != 0 {
		t.Error(complaints)
	}
}

// The image is a static binary alone, of this module's Go, for a user that is not root.
func TestImage(t *testing.T) {
	text := deployed(t, "Dockerfile")
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	build, last, ok := strings.Cut(text, "\nFROM scratch\n")
	if !ok || !strings.Contains(build, "FROM golang:"+string(version[1])+" AS build") || !strings.Contains(build, "CGO_ENABLED=0 go build") || strings.Contains(last, "FROM") {
		t.Error("it is not built with this module's Go and put on nothing")
	}
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(last) || strings.Contains(last, "RUN ") {
		t.Error("it is root's, or runs what scratch does not have")
	}
	var entry, command []string
	for instruction, into := range map[string]*[]string{"ENTRYPOINT": &entry, "CMD": &command} {
		m := regexp.MustCompile(`(?m)^` + instruction + ` (.*)$`).FindStringSubmatch(last)
		if m == nil || json.Unmarshal([]byte(m[1]), into) != nil {
			t.Fatalf("no %s", instruction)
		}
	}
	if flags := flagsOfRun(t, command); !slices.Equal(entry, []string{"/millrace"}) || !strings.Contains(last, "VOLUME "+flags["state-dir"]+"\n") {
		t.Error(entry, command)
	}
	if m := regexp.MustCompile(`ARG PACKAGE=\./(\S+)`).FindStringSubmatch(build); m == nil {
		t.Error("no package")
	} else if _, err := os.Stat(filepath.Join("..", m[1], "main.go")); err != nil {
		t.Error(err)
	}
}
