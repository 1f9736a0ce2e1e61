{{- define "genbus.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "genbus.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "genbus.labels" -}}
{{ include "genbus.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The configuration file: config plus the keys that the chart sets. */}}
{{- define "genbus.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not $config.api_keys -}}
{{- fail "config.api_keys is empty; set at least one key, because genbus must listen beyond loopback in a pod (docs/security.md)" -}}
{{- end -}}
{{- if not $config.nats.url -}}
{{- fail "config.nats.url is empty; set it to a NATS cluster, because replicas cannot share an embedded server" -}}
{{- end -}}
{{- include "genbus.login" $config.nats -}}
{{- $http := $config.http | default dict -}}
{{- if ($http.tls | default dict).client_ca_file -}}
{{- fail "config.http.tls.client_ca_file is not supported, because Kubernetes probes present no client certificate; verify client certificates in a proxy in front of genbus" -}}
{{- end -}}
{{- $_ := set $config "http" (set $http "addr" ":8080") -}}
{{- $_ := set $config "grpc" (set ($config.grpc | default dict) "addr" ":9090") -}}
{{- $_ := set $config "shutdown" (dict "delay" (printf "%ds" (int .Values.shutdown.delaySeconds)) "grace" (printf "%ds" (int .Values.shutdown.graceSeconds))) -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Sets the login in config.nats, which defaults to a user and a password file. */}}
{{- define "genbus.login" -}}
{{- $nobody := and (hasKey . "user") (not .user) -}}
{{- if not (or .creds_file $nobody) -}}
{{- $_ := set . "user" (.user | default "service") -}}
{{- if not .password_env -}}
{{- $_ := set . "password_file" (.password_file | default "/etc/genbus/secrets/nats-password") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The scheme of HTTP, for probes and the Service. */}}
{{- define "genbus.scheme" -}}
{{- if ((.Values.config.http | default dict).tls | default dict).cert_file }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}
