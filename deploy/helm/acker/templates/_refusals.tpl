{{- /* What contradicts itself is refused with words, before anything is applied. */ -}}
{{- define "acker.refusals" -}}
{{- range list "names" "words" "store" "durability" "auth" "grace" "scaling" "monitoring" "doors" }}
{{- $found := include (printf "acker.refusals.%s" .) $ | trim }}
{{- if $found }}{{ fail (printf "\n\nacker: %s\n" $found) }}{{ end }}
{{- end }}
{{- end }}

{{- define "acker.refusals.names" -}}
{{- $name := include "acker.fullname" . }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
{{- printf "%q cannot name a Service: begin with a letter, use a-z, 0-9 and -; say fullnameOverride" $name }}
{{- end }}
{{- if and .Values.image.tag .Values.image.digest }}say image.tag or image.digest, not both{{ end }}
{{- end }}

{{- define "acker.refusals.words" -}}
{{- $found := list }}
{{- range keys .Values.extraEnv | sortAlpha }}
{{- if regexMatch "(?i)^acker_" . }}{{ $found = append $found (printf "extraEnv.%s: settings of the service belong into config, and some are the chart's own" .) }}
{{- else if not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" .) }}{{ $found = append $found (printf "extraEnv.%s cannot name a variable" .) }}
{{- end }}
{{- end }}
{{- $labels := dict "commonLabels" .Values.commonLabels "api.podLabels" .Values.api.podLabels "worker.podLabels" .Values.worker.podLabels }}
{{- range $where, $of := $labels }}
{{- range keys $of | sortAlpha }}
{{- if regexMatch "^(app\\.kubernetes\\.io|helm\\.sh)/" . }}{{ $found = append $found (printf "%s: %s is the chart's own" $where .) }}
{{- else if and (ne $where "commonLabels") (hasKey $labels.commonLabels .) }}{{ $found = append $found (printf "%s: %s is in commonLabels already" $where .) }}
{{- end }}
{{- end }}
{{- end }}
{{- join "; " $found }}
{{- end }}

{{- define "acker.refusals.store" -}}
{{- $r := .Values.redis }}
{{- if ne (len (compact (list $r.url $r.existingSecret (ternary "dev" "" .Values.devValkey.enabled)))) 1 }}
{{- "say where the trees live, exactly one of redis.url, redis.existingSecret and devValkey.enabled" }}
{{- else if regexMatch "@|[?&](sentinel_)?(password|username)=" $r.url }}
{{- "redis.url must not hold a login; put the address into a Secret and name it in redis.existingSecret" }}
{{- else if and (contains "ssl_ca_certs=" $r.url) (not $r.tlsSecret) }}
{{- "redis.url says ssl_ca_certs, but no redis.tlsSecret brings the file" }}
{{- else if and (contains "ssl_ca_certs=" $r.url) (not (regexMatch "ssl_ca_certs=/etc/acker/redis-tls/" $r.url)) }}
{{- "ssl_ca_certs must lie in /etc/acker/redis-tls, where redis.tlsSecret is mounted" }}
{{- else if and $r.tlsSecret (not $r.existingSecret) (not (hasPrefix "rediss" $r.url)) }}
{{- "redis.tlsSecret is of no use without an address that begins with rediss" }}
{{- else if and .Values.networkPolicy.enabled (include "acker.closedPorts" . | trim) }}
{{- printf "networkPolicy.redisPorts lacks %s, which redis.url names" (include "acker.closedPorts" . | trim) }}
{{- end }}
{{- end }}

{{- /* The ports of redis.url, or 6379 of devValkey, that no rule lets through */ -}}
{{- define "acker.closedPorts" -}}
{{- $open := list }}
{{- range .Values.networkPolicy.redisPorts }}{{ $open = append $open (int .) }}{{ end }}
{{- $url := .Values.redis.url }}
{{- if not .Values.redis.existingSecret }}
{{- range splitList "," (regexFind "^[^/?]*" (regexReplaceAll "^[a-z+]+://" $url "")) }}
{{- $usual := ternary "26379" "6379" (contains "+sentinel" $url) }}
{{- $port := default $usual (trimPrefix ":" (regexFind ":[0-9]+$" .)) }}
{{- if not (has (int $port) $open) }}{{ $port }} {{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "acker.refusals.durability" -}}
{{- $says := default "relaxed" .Values.config.ACKER_DURABILITY }}
{{- if and .Values.devValkey.enabled (ne $says "relaxed") }}
{{- printf "devValkey has neither replicas nor appendfsync always: ACKER_DURABILITY %s would refuse every write" $says }}
{{- else if and (eq (toString .Values.config.ACKER_FSYNC_ASSERTED) "true") (ne $says "fsync") }}
{{- "ACKER_FSYNC_ASSERTED says something only with ACKER_DURABILITY fsync" }}
{{- end }}
{{- end }}

{{- define "acker.refusals.auth" -}}
{{- $open := .Values.auth.open }}
{{- if eq (not .Values.auth.existingSecret) (not $open) }}
{{- "say who may do what, exactly one of auth.existingSecret and auth.open" }}
{{- else if and $open (or .Values.ingress.enabled .Values.httpRoute.enabled) }}
{{- "auth.open behind ingress or httpRoute would let the world in; name keys in auth.existingSecret" }}
{{- else if and $open (ne .Values.service.type "ClusterIP") }}
{{- printf "auth.open behind a Service of type %s would let others in; name keys in auth.existingSecret" .Values.service.type }}
{{- else if and $open .Values.test.existingSecret }}
{{- "auth.open asks for no key: test.existingSecret is of no use" }}
{{- end }}
{{- end }}

{{- define "acker.refusals.grace" -}}
{{- $drain := ternary (default 0 .Values.config.ACKER_SHUTDOWN_DRAIN_S) 5 (hasKey .Values.config "ACKER_SHUTDOWN_DRAIN_S") }}
{{- $api := add (int .Values.api.preStopSleepSeconds) (int (ceil (float64 $drain))) 20 }}
{{- if lt (int .Values.api.terminationGracePeriodSeconds) (int $api) }}
{{- printf "api.terminationGracePeriodSeconds must be at least %d: preStopSleepSeconds, ACKER_SHUTDOWN_DRAIN_S, 10 for requests, 5 for deliveries, 5 to spare" $api }}
{{- else if lt (int .Values.worker.terminationGracePeriodSeconds) 20 }}
{{- "worker.terminationGracePeriodSeconds must be at least 20: 10 for requests, 5 for deliveries, 5 to spare" }}
{{- end }}
{{- end }}

{{- define "acker.refusals.scaling" -}}
{{- $hpa := .Values.api.autoscaling }}
{{- $keda := .Values.worker.keda }}
{{- if and $hpa.enabled (gt (int $hpa.minReplicas) (int $hpa.maxReplicas)) }}
{{- "api.autoscaling.minReplicas is more than maxReplicas" }}
{{- else if and $hpa.enabled (not (dig "requests" "cpu" "" .Values.api.resources)) }}
{{- "api.autoscaling reckons from api.resources.requests.cpu, and there is none" }}
{{- else if and $keda.enabled (ne .Values.roles "split") }}
{{- "worker.keda scales the Deployment of workers, which is there only if roles is split" }}
{{- else if and $keda.enabled (not .Values.podMonitor.enabled) }}
{{- "worker.keda asks for metrics that only podMonitor has scraped: say podMonitor.enabled" }}
{{- else if and $keda.enabled (gt (int $keda.minReplicas) (int $keda.maxReplicas)) }}
{{- "worker.keda.minReplicas is more than maxReplicas" }}
{{- end }}
{{- end }}

{{- define "acker.refusals.monitoring" -}}
{{- if and .Values.prometheusRule.enabled (not .Values.podMonitor.enabled) }}
{{- "prometheusRule would alert for ever that nothing is scraped: say podMonitor.enabled" }}
{{- end }}
{{- end }}

{{- define "acker.refusals.doors" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- "ingress needs ingress.host" }}
{{- else if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- "httpRoute needs httpRoute.parentRefs" }}
{{- end }}
{{- end }}
