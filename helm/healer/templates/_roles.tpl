{{- /* What is needed where, as JSON: `cluster` everywhere, `namespaces` by namespace; each a list of {why, rules}. */}}
{{- define "healer.permissions" -}}
{{- $table := .Files.Get "files/permissions.yaml" | fromYaml }}
{{- $cluster := list }}
{{- $in := dict }}
{{- $some := .Values.rbac.namespaces }}
{{- $here := include "healer.here" . }}
{{- $grants := list }}
{{- if $here }}
{{- $grants = append $grants (dict "why" "to see" "rules" $table.always "limited" false) }}
{{- $grants = append $grants (dict "why" "to put Events on objects" "rules" $table.events "limited" true "also" "default") }}
{{- range $action := uniq .Values.actions | sortAlpha }}
{{- $grants = append $grants (dict "why" $action "rules" (default list (get $table.actions $action)) "limited" true) }}
{{- end }}
{{- end }}
{{- range default list .Values.config.from_kubernetes }}
{{- if eq $here (default (first (include "healer.clusters" $ | fromYamlArray)).name .cluster) }}
{{- $why := printf "to take configuration from objects with %s" .selector }}
{{- $rules := list }}
{{- range default (keys $table.from_kubernetes | sortAlpha) .kinds }}{{ $rules = concat $rules (get $table.from_kubernetes .) }}{{ end }}
{{- $grants = append $grants (dict "why" $why "rules" $rules "limited" false "only" .namespace) }}
{{- end }}
{{- end }}
{{- range $grant := $grants }}
{{- range $rule := $grant.rules }}
{{- $where := list }}
{{- if $rule.only_in }}{{ $where = list $rule.only_in }}
{{- else if $grant.only }}{{ $where = list $grant.only }}
{{- else if and $grant.limited $rule.namespaced $some }}{{ $where = uniq (compact (append $some $grant.also)) }}
{{- end }}
{{- $given := dict "why" $grant.why "rule" $rule }}
{{- if $where }}
{{- range $where }}{{ $_ := set $in . (append (default list (get $in .)) $given) }}{{ end }}
{{- else }}{{ $cluster = append $cluster $given }}
{{- end }}
{{- end }}
{{- end }}
{{- dict "cluster" $cluster "namespaces" $in | toJson }}
{{- end }}

{{- /* A list of {why, rule}: each reason once, as a comment above its rules. */}}
{{- define "healer.explained" -}}
{{- $last := "" }}
{{- range . }}
{{- if ne .why $last }}
{{ printf "# %s" .why }}
{{- end }}
{{- $last = .why }}
- {apiGroups: [{{ .rule.group | quote }}], resources: [{{ .rule.resource | quote }}], verbs: [{{ join ", " .rule.verbs }}]}
{{- end }}
{{- end }}

{{- define "healer.subjects" -}}
- kind: ServiceAccount
  name: {{ include "healer.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
