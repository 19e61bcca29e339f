{{- /* The clusters that are watched, as YAML. */}}
{{- define "healer.clusters" -}}
{{- default (list (dict "name" .Values.clusterName "in_cluster" true)) .Values.config.clusters | toYaml }}
{{- end }}

{{- /* Which of them it runs in; empty when it only watches others. */}}
{{- define "healer.here" -}}
{{- range include "healer.clusters" . | fromYamlArray }}{{ if .in_cluster }}{{ .name }}{{ end }}{{ end }}
{{- end }}

{{- /* healer.yaml: what the user gives, and over it what only the chart can know. */}}
{{- define "healer.config" -}}
{{- $given := deepCopy .Values.config }}
{{- $web := dict "listen" "0.0.0.0:9095" "token_file" "/var/lib/healer/token" }}
{{- if .Values.auth.existingSecret }}
{{- $_ := set $web "token_file" "secrets/web-token" }}
{{- if .Values.auth.hooksTokenKey }}{{ $_ := set $web "hooks_token_file" "secrets/web-hooks-token" }}{{ end }}
{{- end }}
{{- $default := dict "telemetry" (dict "log_format" "json") }}
{{- $journal := dict "path" "/var/lib/healer/journal.db" }}
{{- if .Values.journal.postgres.existingSecret }}
{{- $journal = dict "postgres" (dict "url_file" "secrets/journal-url") }}
{{- $_ := set $default "leader" (dict "name" (include "healer.fullname" .)) }}
{{- end }}
{{- $own := dict "web" $web "journal" $journal "store" (dict "embedded" (dict "path" "/var/lib/healer/samples")) }}
{{- $_ := set $own "clusters" (include "healer.clusters" . | fromYamlArray) }}
{{- with include "healer.here" . }}{{ $_ := set $default "safety" (dict "self" (dict "cluster" .)) }}{{ end }}
{{- if .Values.ruleFiles }}
{{- $rules := list }}
{{- range $name, $_ := .Values.ruleFiles }}{{ $rules = append $rules (printf "rules/%s" $name) }}{{ end }}
{{- $_ := set $own "rules" (concat (default list $given.rules) $rules) }}
{{- end }}
{{- toYaml (mustMergeOverwrite $default $given $own) }}
{{- end }}

{{- /* What takes effect only with a restart: the pods carry its digest. The rest is read again while Healer runs. */}}
{{- define "healer.fixedDigest" -}}
{{- omit (include "healer.config" . | fromYaml) "rules" "remedies" "safety" "approvers" | toJson | sha256sum }}
{{- end }}

{{- /* Ports of what the configuration says that Healer calls, as JSON. Those of Secrets and of files of targets cannot be known. */}}
{{- define "healer.calledPorts" -}}
{{- $urls := list }}
{{- range dig "web" "alertmanagers" (list) .Values.config }}{{ $urls = append $urls . }}{{ end }}
{{- with dig "telemetry" "otlp_endpoint" "" .Values.config }}{{ $urls = append $urls . }}{{ end }}
{{- range $_, $provider := default dict .Values.config.providers }}
{{- with dig "webhook" "url" "" $provider }}{{ $urls = append $urls . }}{{ end }}
{{- end }}
{{- with dig "notify" "slack" dict .Values.config }}{{ $urls = append $urls (dig "api_url" "https://slack" .) }}{{ end }}
{{- with dig "notify" "pagerduty" dict .Values.config }}{{ $urls = append $urls (dig "url" "https://pagerduty" .) }}{{ end }}
{{- range default list .Values.config.collect }}
{{- $scheme := dig "prometheus" "scheme" "http" . }}
{{- range dig "prometheus" "targets" (list) . }}{{ $urls = append $urls (printf "%s://%s" $scheme .) }}{{ end }}
{{- end }}
{{- $ports := list }}
{{- range $urls }}
{{- $url := urlParse . }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" }}
{{- $ports = append $ports (int (default (ternary "443" "80" (eq $url.scheme "https")) $port)) }}
{{- end }}
{{- uniq $ports | toJson }}
{{- end }}
