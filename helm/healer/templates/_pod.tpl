{{- /* The pod, the same for Deployment and StatefulSet. */}}
{{- define "healer.podTemplate" -}}
metadata:
  labels:
    {{- include "healer.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    healer.dev/fixed-configuration: {{ include "healer.fixedDigest" . }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "healer.serviceAccount" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  # A repair under way gets 20 seconds to come to a good end.
  terminationGracePeriodSeconds: 40
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    seccompProfile: {type: RuntimeDefault}
    {{- with .Values.podSecurityContext }}{{ toYaml . | nindent 4 }}{{ end }}
  containers:
    - name: healer
      image: {{ include "healer.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run]
      env:
        - {name: HEALER_CONFIG, value: /etc/healer/healer.yaml}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        {{- with .Values.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: http, containerPort: 9095, protocol: TCP}
      # It starts to listen when it has read its journal.
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/healer, readOnly: true}
        - {name: data, mountPath: /var/lib/healer}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: config
      projected:
        defaultMode: 0440
        sources:
          - configMap:
              name: {{ include "healer.fullname" . }}
              items:
                - {key: healer.yaml, path: healer.yaml}
                {{- range $name, $_ := .Values.ruleFiles }}
                - {key: {{ printf "rules.%s" $name }}, path: {{ printf "rules/%s" $name }}}
                {{- end }}
          {{- with .Values.journal.postgres }}{{ if .existingSecret }}
          - secret: {name: {{ .existingSecret }}, items: [{key: {{ .key }}, path: secrets/journal-url}]}
          {{- end }}{{ end }}
          {{- with .Values.auth }}{{ if .existingSecret }}
          - secret: {name: {{ .existingSecret }}, items: [{key: {{ .tokenKey }}, path: secrets/web-token}]}
          {{- if .hooksTokenKey }}
          - secret: {name: {{ .existingSecret }}, items: [{key: {{ .hooksTokenKey }}, path: secrets/web-hooks-token}]}
          {{- end }}
          {{- end }}{{ end }}
          {{- range $name, $from := .Values.secretFiles }}
          - secret: {name: {{ $from.existingSecret }}, items: [{key: {{ $from.key }}, path: {{ printf "secrets/%s" $name }}}]}
          {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.persistence.size }}}
    {{- end }}
  {{- if .Values.topologySpread.enabled }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: {{ .Values.topologySpread.nodes }}
      {{- include "healer.spreadOver" . | nindent 6 }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: {{ .Values.topologySpread.zones }}
      {{- include "healer.spreadOver" . | nindent 6 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "healer.spreadOver" -}}
labelSelector:
  matchLabels: {{- include "healer.selector" . | nindent 4 }}
{{- /* Each revision by itself, so that a rollout is not held up by the pods that it replaces. */}}
matchLabelKeys: [{{ ternary "controller-revision-hash" "pod-template-hash" .Values.persistence.enabled }}]
{{- end }}
