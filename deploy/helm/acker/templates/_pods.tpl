{{- define "acker.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* What every pod says of itself */ -}}
{{- define "acker.everyPod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where the pods of a component go: dict "root" $ "component" "api" "values" .Values.api */ -}}
{{- define "acker.placing" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
{{- $own := dict "matchLabels" (merge (dict "app.kubernetes.io/component" $.component) (fromYaml (include "acker.selector" $.root))) }}
{{- $spread := . }}
{{- if not .labelSelector }}{{ $spread = merge (dict "labelSelector" $own "matchLabelKeys" (list "pod-template-hash")) . }}{{ end }}
  - {{- toYaml $spread | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* How many, unless something else counts them. A Deployment that is scaled keeps what it has: leaving the field out of
       a release that had it would set it to one. */ -}}
{{- define "acker.replicas" -}}
{{- if not .scaled }}
replicas: {{ int .values.replicas }}
{{- else }}
{{- with lookup "apps/v1" "Deployment" .root.Release.Namespace (printf "%s%s" (include "acker.fullname" .root) .suffix) }}
replicas: {{ max (int .spec.replicas) (int $.least) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "acker.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.auth.existingSecret }}
- {name: keys, mountPath: /etc/acker/keys, readOnly: true}
{{- end }}
{{- if .Values.redis.tlsSecret }}
- {name: redis-tls, mountPath: /etc/acker/redis-tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "acker.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- with .Values.auth.existingSecret }}
- name: keys
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.redis.tlsSecret }}
- name: redis-tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
