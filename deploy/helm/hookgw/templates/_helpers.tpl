{{- define "hookgw.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hookgw.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "hookgw.labels" -}}
{{ include "hookgw.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "hookgw.secret" -}}
{{- .Values.existingSecret | default (include "hookgw.name" .) -}}
{{- end -}}

{{/* Whether the data is in PostgreSQL instead of a volume; empty for no. */}}
{{- define "hookgw.usesPostgresql" -}}
{{- if or .Values.fleet.enabled (trim .Values.postgresql.url) -}}yes{{- end -}}
{{- end -}}

{{/* Whether the Secret has a master key; empty for no. */}}
{{- define "hookgw.hasMasterKey" -}}
{{- if or (and .Values.existingSecret .Values.existingSecretHasMasterKey) (and (not .Values.existingSecret) .Values.masterKey) -}}yes{{- end -}}
{{- end -}}

{{/* What all paths begin with; empty for nothing. */}}
{{- define "hookgw.basePath" -}}
{{- ((.Values.config).server).base_path -}}
{{- end -}}
