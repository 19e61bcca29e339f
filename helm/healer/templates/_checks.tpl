{{- /* Everything in the values that does not go together, at once, each with the mend. Shapes are checked by values.schema.json. */}}
{{- define "healer.check" -}}
{{- $wrong := list }}
{{- $known := keys (.Files.Get "files/permissions.yaml" | fromYaml).actions | sortAlpha }}
{{- if gt (int .Values.replicas) 1 }}
{{- if not .Values.journal.postgres.existingSecret }}
{{- $wrong = append $wrong "replicas: more than one share a journal; set journal.postgres.existingSecret (docs/high-availability.md)" }}
{{- end }}
{{- if not .Values.auth.existingSecret }}
{{- $wrong = append $wrong "replicas: each would make a token of its own; set auth.existingSecret" }}
{{- end }}
{{- end }}
{{- range .Values.actions }}
{{- if not (has . $known) }}
{{- $wrong = append $wrong (printf "actions: there is no %q; there are %s" . (join ", " $known)) }}
{{- end }}
{{- end }}
{{- $may := .Values.actions }}
{{- range default list .Values.config.remedies }}
{{- if has .mode (list "approve" "auto") }}
{{- $remedy := . }}
{{- range default list .steps }}
{{- $action := . }}
{{- if kindIs "map" . }}{{ $action = keys . | first }}{{ end }}
{{- if and (has $action $known) (not (has $action $may)) }}
{{- $wrong = append $wrong (printf "remedy %q may %s (mode %s), but the role does not allow it; add it to `actions`" $remedy.name $action $remedy.mode) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $instead := dict "journal" "journal.postgres.existingSecret, or persistence" "web.listen" "service.port" "web.token_file" "auth.existingSecret" "web.hooks_token_file" "auth.hooksTokenKey" "store.embedded.path" "persistence" }}
{{- $at := $.Values.config }}
{{- range splitList "." $key }}
{{- if kindIs "map" $at }}{{ $at = get $at . }}{{ else }}{{ $at = "" }}{{ end }}
{{- end }}
{{- if $at }}
{{- $wrong = append $wrong (printf "config.%s: the chart sets it; use %s" $key $instead) }}
{{- end }}
{{- end }}
{{- range $name, $_ := .Values.secretFiles }}
{{- if has $name (list "journal-url" "web-token" "web-hooks-token") }}
{{- $wrong = append $wrong (printf "secretFiles.%s: the chart makes this file; choose another name" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
{{- $wrong = append $wrong "metrics: serviceMonitor and podMonitor would both scrape every pod; enable one" }}
{{- end }}
{{- if and .Values.rbac.namespaces (has "drain" $may) }}
{{- $wrong = append $wrong "rbac.namespaces: a node holds pods of any namespace, so `drain` needs all of them; remove the one or the other" }}
{{- end }}
{{- if and .Values.rbac.namespaces (has "fence" $may) }}
{{- $wrong = append $wrong "rbac.namespaces: a node holds pods of any namespace, so `fence` needs all of them; remove the one or the other" }}
{{- end }}
{{- with $wrong }}{{ fail (printf "\n- %s" (join "\n- " .)) }}{{ end }}
{{- end }}
