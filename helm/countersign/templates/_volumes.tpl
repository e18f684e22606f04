{{/* Volumes are mounted as directories, because changes of a Secret do not reach files mounted with subPath. */}}
{{- define "countersign.mounts" -}}
- { name: config, mountPath: /etc/countersign/config, readOnly: true }
{{- if .Values.tls.enabled }}
- { name: tls, mountPath: {{ include "countersign.tlsDir" . }}, readOnly: true }
{{- end }}
{{- if .Values.adminTls.enabled }}
- { name: admin-tls, mountPath: {{ include "countersign.adminTlsDir" . }}, readOnly: true }
{{- end }}
{{- if include "countersign.kubernetesAuth" . }}
- { name: vault-token, mountPath: {{ include "countersign.tokenDir" . }}, readOnly: true }
{{- end }}
{{- if include "countersign.usesKubernetesApi" . }}
- { name: kubernetes-api, mountPath: {{ include "countersign.apiTokenDir" . }}, readOnly: true }
{{- end }}
{{- if .Values.keySecrets }}
- { name: keys, mountPath: {{ include "countersign.keyDir" . }}, readOnly: true }
{{- end }}
{{- if .Values.audit.enabled }}
- { name: audit-key, mountPath: {{ include "countersign.auditKeyDir" . }}, readOnly: true }
{{- if .Values.audit.volume }}
- { name: audit, mountPath: {{ include "countersign.auditDir" . }} }
{{- end }}
{{- end }}
{{- range .Values.secretFiles }}
- { name: secret-{{ .name }}, mountPath: {{ include "countersign.secretDir" $ }}/{{ .name }}, readOnly: true }
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "countersign.volumes" -}}
- name: config
  configMap:
    name: {{ include "countersign.fullname" . }}
{{- if .Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secretName }}
    defaultMode: 0440
{{- end }}
{{- if .Values.adminTls.enabled }}
- name: admin-tls
  secret:
    secretName: {{ .Values.adminTls.secretName }}
    defaultMode: 0440
{{- end }}
{{- if include "countersign.kubernetesAuth" . }}
- name: vault-token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          path: token
          audience: {{ .Values.vaultToken.audience }}
          expirationSeconds: {{ .Values.vaultToken.expirationSeconds }}
{{- end }}
{{- if include "countersign.usesKubernetesApi" . }}
- name: kubernetes-api
  projected:
    defaultMode: 0440
    sources:
      # Without an audience: for the Kubernetes API itself.
      - serviceAccountToken: { path: token, expirationSeconds: 3600 }
      - configMap: { name: kube-root-ca.crt, items: [{ key: ca.crt, path: ca.crt }] }
{{- end }}
{{- if .Values.keySecrets }}
- name: keys
  projected:
    defaultMode: 0440
    sources:
      {{- range $key := .Values.keySecrets }}
      - secret:
          name: {{ $key.secretName }}
          items:
            {{- range $key.entries }}
            - { key: {{ . }}, path: {{ printf "%s/%s/%s" $key.environment $key.login . }} }
            {{- end }}
      {{- end }}
{{- end }}
{{- if .Values.audit.enabled }}
- name: audit-key
  secret:
    secretName: {{ .Values.audit.secretName }}
    defaultMode: 0440
{{- with .Values.audit.volume }}
- name: audit
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- range .Values.secretFiles }}
- name: secret-{{ .name }}
  secret:
    secretName: {{ .secretName }}
    defaultMode: 0440
    optional: {{ default false .optional }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
