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
       a release that had it would set it to one. An install says the least, for `--wait`, and for a rollback to it. */ -}}
{{- define "acker.replicas" -}}
{{- if not .scaled }}
replicas: {{ int .values.replicas }}
{{- else }}
{{- with lookup "apps/v1" "Deployment" .root.Release.Namespace (printf "%s%s" (include "acker.fullname" .root) .suffix) }}
replicas: {{ max (int .spec.replicas) (int $.least) }}
{{- else }}
{{- if .root.Release.IsInstall }}
replicas: {{ int .least }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* How many replicas are ready at least where all is well, by the Service that names them: api=3 worker=2 */ -}}
{{- define "acker.expectedReplicas" -}}
{{- $name := include "acker.fullname" . }}
{{- $api := ternary .Values.api.autoscaling.minReplicas .Values.api.replicas .Values.api.autoscaling.enabled }}
{{- printf "%s-api-replicas=%d" $name (int $api) }}
{{- if eq .Values.roles "split" }}
{{- $worker := ternary .Values.worker.keda.minReplicas .Values.worker.replicas .Values.worker.keda.enabled }}
{{- printf " %s-worker-replicas=%d" $name (int $worker) }}
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
{{- if .Values.tls.existingSecret }}
- {name: tls, mountPath: /etc/acker/tls, readOnly: true}
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
{{- with .Values.tls.existingSecret }}
- name: tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
