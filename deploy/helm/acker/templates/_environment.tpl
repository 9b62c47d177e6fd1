{{- /* A value as the service reads it. YAML's numbers arrive as floats, and a million would be written 1e+06. */ -}}
{{- define "acker.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{- /* The names of the Service, and those of config: without keys any other name in Host is refused. */ -}}
{{- define "acker.hosts" -}}
{{- $name := include "acker.fullname" . }}
{{- $full := printf "%s.%s" $name .Release.Namespace }}
{{- $names := list $name $full (printf "%s.svc" $full) (printf "%s.svc.cluster.local" $full) }}
{{- join "," (compact (append $names (default "" .Values.config.ACKER_ALLOWED_HOSTS))) }}
{{- end }}

{{- /* All variables of a role, each once, sorted: dict "root" $ "role" "api" */ -}}
{{- define "acker.environment" -}}
{{- $v := .root.Values }}
{{- $all := dict "ACKER_ROLE" .role "ACKER_PORT" "8700" }}
{{- range $name, $value := $v.config }}{{ $_ := set $all $name (include "acker.text" $value) }}{{ end }}
{{- /* An empty address would mean a store of its own in every pod: there is no folder for it, so the start ends with words. */ -}}
{{- $_ := set $all "ACKER_DATA_DIR" "/dev/null/no-store-in-a-pod" }}
{{- if $v.redis.existingSecret }}
{{- $_ := set $all "ACKER_REDIS_URL" (dict "valueFrom" (dict "secretKeyRef" (dict "name" $v.redis.existingSecret "key" $v.redis.existingSecretKey))) }}
{{- else }}
{{- $_ := set $all "ACKER_REDIS_URL" (default (printf "redis://%s-valkey:6379" (include "acker.fullname" .root)) $v.redis.url) }}
{{- end }}
{{- if $v.auth.open }}{{ $_ := set $all "ACKER_OPEN" "true" }}
{{- $_ := set $all "ACKER_ALLOWED_HOSTS" (include "acker.hosts" .root) }}
{{- else }}{{ $_ := set $all "ACKER_KEYS_FILE" (printf "/etc/acker/keys/%s" $v.auth.existingSecretKey) }}
{{- end }}
{{- if $v.tls.existingSecret }}
{{- $_ := set $all "ACKER_TLS_CERT" "/etc/acker/tls/tls.crt" }}
{{- $_ := set $all "ACKER_TLS_KEY" "/etc/acker/tls/tls.key" }}
{{- end }}
{{- range $name, $value := $v.extraEnv }}{{ $_ := set $all $name $value }}{{ end }}
{{- range $name := keys $all | sortAlpha }}
{{- $value := get $all $name }}
- name: {{ $name }}
{{- if kindIs "map" $value }}
  {{- toYaml $value | nindent 2 }}
{{- else }}
  value: {{ include "acker.text" $value | quote }}
{{- end }}
{{- end }}
{{- end }}
