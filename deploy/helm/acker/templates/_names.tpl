{{- define "acker.fullname" -}}
{{- $name := .Values.fullnameOverride }}
{{- if not $name }}{{ $name = ternary .Release.Name (printf "%s-acker" .Release.Name) (contains "acker" .Release.Name) | trunc 45 | trimSuffix "-" }}{{ end }}
{{- $name }}
{{- end }}

{{- define "acker.selector" -}}
app.kubernetes.io/name: acker
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "acker.labels" -}}
{{ include "acker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: acker
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* name, namespace and labels of an object: dict "root" $ "suffix" "-api" "component" "api" "labels" dict */ -}}
{{- define "acker.metadata" -}}
{{- $labels := merge (dict) (default dict .labels) (fromYaml (include "acker.labels" .root)) -}}
{{- with .component }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end -}}
name: {{ include "acker.fullname" .root }}{{ .suffix }}
namespace: {{ .root.Release.Namespace }}
labels: {{- toYaml $labels | nindent 2 }}
{{- end }}

{{- define "acker.serviceAccountName" -}}
{{- $own := ternary (include "acker.fullname" .) "default" .Values.serviceAccount.create }}
{{- default $own .Values.serviceAccount.name }}
{{- end }}

{{- /* How the pods are spoken to: http or https */ -}}
{{- define "acker.scheme" -}}
{{- ternary "https" "http" (ne .Values.tls.existingSecret "") }}
{{- end }}

{{- /* What a probe asks: dict "root" $ "path" "/livez" */ -}}
{{- define "acker.probe" -}}
{path: {{ .path }}, port: http{{ if .root.Values.tls.existingSecret }}, scheme: HTTPS{{ end }}}
{{- end }}

{{- define "acker.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}
