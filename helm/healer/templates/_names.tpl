{{- define "healer.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "healer.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "healer.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- /* What never changes over upgrades: selectors may hold nothing else. */}}
{{- define "healer.selector" -}}
app.kubernetes.io/name: healer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "healer.labels" -}}
{{ include "healer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Of objects that belong to the whole cluster, or stand in other namespaces. */}}
{{- define "healer.globalName" -}}
{{ printf "%s-%s" .Release.Namespace (include "healer.fullname" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "healer.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}
