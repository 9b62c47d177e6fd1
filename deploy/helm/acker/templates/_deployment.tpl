{{- /* The Deployment of a component: dict "root" $ "component" "api" "role" "all" "values" .Values.api "scaled" false "least" 1 "nap" 5 */ -}}
{{- define "acker.deployment" -}}
{{- $suffix := printf "-%s" .component }}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "acker.metadata" (dict "root" .root "suffix" $suffix "component" .component) | nindent 2 }}
spec:
  {{- include "acker.replicas" (merge (dict "suffix" $suffix) .) | nindent 2 }}
  revisionHistoryLimit: 5
  minReadySeconds: 5
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  selector:
    matchLabels:
      {{- include "acker.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      {{- with .values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
      labels:
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "acker.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
    spec:
      serviceAccountName: {{ include "acker.serviceAccountName" .root }}
      {{- include "acker.everyPod" .root | nindent 6 }}
      securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 8 }}
      terminationGracePeriodSeconds: {{ int .values.terminationGracePeriodSeconds }}
      {{- include "acker.placing" . | nindent 6 }}
      containers:
        - name: acker
          image: {{ include "acker.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [serve]
          ports:
            - {name: http, containerPort: 8700}
          env: {{- include "acker.environment" . | nindent 12 }}
          # Neither of these two asks the store: while that is away no replica has to be restarted.
          startupProbe:
            httpGet: {{ include "acker.probe" (dict "root" .root "path" "/livez") }}
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {{ include "acker.probe" (dict "root" .root "path" "/livez") }}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          # Slow to leave, slow to come back: a blink of the store must not empty the Service.
          readinessProbe:
            httpGet: {{ include "acker.probe" (dict "root" .root "path" "/readyz") }}
            periodSeconds: 3
            timeoutSeconds: 3
            failureThreshold: 3
            successThreshold: 2
          {{- if .nap }}
          lifecycle:
            preStop:
              sleep: {seconds: {{ int .nap }}}
          {{- end }}
          resources: {{- toYaml .values.resources | nindent 12 }}
          securityContext: {{- include "acker.containerSecurity" . | nindent 12 }}
          volumeMounts: {{- include "acker.mounts" .root | nindent 12 }}
      volumes: {{- include "acker.volumes" .root | nindent 8 }}
{{- end }}
