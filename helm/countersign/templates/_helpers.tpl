{{- define "countersign.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "countersign.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" }}
{{- else }}
{{- $name := include "countersign.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 55 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 55 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "countersign.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "countersign.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "countersign.selector" -}}
app.kubernetes.io/name: {{ include "countersign.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: proxy
{{- end }}

{{- define "countersign.testSelector" -}}
app.kubernetes.io/name: {{ include "countersign.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{- end }}

{{- define "countersign.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "countersign.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The scheme of the admin port. */}}
{{- define "countersign.adminScheme" -}}{{ ternary "https" "http" .Values.adminTls.enabled }}{{- end }}

{{/* The name of the admin Service that the certificate of adminTls has. */}}
{{- define "countersign.adminHost" -}}{{ include "countersign.fullname" . }}-admin.{{ .Release.Namespace }}.svc{{- end }}

{{- define "countersign.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- printf "%s:%s" .Values.image.repository $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "countersign.tlsDir" -}}/etc/countersign/tls{{- end }}
{{- define "countersign.adminTlsDir" -}}/etc/countersign/admin-tls{{- end }}
{{- define "countersign.keyDir" -}}/etc/countersign/keys{{- end }}
{{- define "countersign.secretDir" -}}/etc/countersign/secrets{{- end }}
{{- define "countersign.apiTokenDir" -}}/var/run/secrets/countersign/kubernetes-api{{- end }}
{{- define "countersign.auditKeyDir" -}}/etc/countersign/audit{{- end }}
{{/* Short: the path of the lock, with the name of the pod, is limited to 103 bytes. */}}
{{- define "countersign.auditDir" -}}/var/lib/audit{{- end }}
{{- define "countersign.tokenDir" -}}/var/run/secrets/countersign/vault{{- end }}

{{/* Describes a NetworkPolicy peer: pods labeled a=b in namespaces labeled c=d. */}}
{{- define "countersign.describePeer" -}}
{{- if .ipBlock -}}
addresses in {{ .ipBlock.cidr }}{{ with .ipBlock.except }} except {{ join ", " . }}{{ end }}
{{- else -}}
{{ include "countersign.describeSelector" (dict "what" "pods" "selector" .podSelector) }} in {{ if hasKey . "namespaceSelector" }}{{ include "countersign.describeSelector" (dict "what" "namespaces" "selector" .namespaceSelector) }}{{ else }}this namespace{{ end }}
{{- end -}}
{{- end }}

{{- define "countersign.describeSelector" -}}
{{- $labels := list -}}
{{- range $name, $value := dig "matchLabels" dict (default dict .selector) -}}
{{- $labels = append $labels (printf "%s=%s" $name $value) -}}
{{- end -}}
{{- range dig "matchExpressions" list (default dict .selector) -}}
{{- $labels = append $labels (printf "%s %s %s" .key .operator (join "|" .values)) -}}
{{- end -}}
{{- if $labels }}{{ .what }} labeled {{ join ", " $labels }}{{ else }}all {{ .what }}{{ end -}}
{{- end }}

{{/* The IP families of a Service, or nothing. */}}
{{- define "countersign.ipFamilies" -}}
{{- with .Values.ipFamilyPolicy -}}
ipFamilyPolicy: {{ . }}
{{ end -}}
{{- with .Values.ipFamilies -}}
ipFamilies: {{ toJson . }}
{{- end -}}
{{- end }}
