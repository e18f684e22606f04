{{/* The given configuration, or the placeholder. */}}
{{- define "countersign.givenConfig" -}}
{{- if .Values.config }}{{ toYaml .Values.config }}{{ else }}{{ .Files.Get "files/placeholder-config.yaml" }}{{ end }}
{{- end }}

{{/* "true" if the pod logs in to Vault with its service account, else empty. */}}
{{- define "countersign.kubernetesAuth" -}}
{{- $keys := (include "countersign.givenConfig" . | fromYaml).keys -}}
{{- if and (eq $keys.source "vault") (eq (dig "auth" "method" "" (default dict $keys.vault)) "kubernetes") -}}true{{- end }}
{{- end }}

{{/*
YAML with the ports of each kind of server that the pod connects to: gateway, vault, jwtIssuers, tracing, claims; egressProxy in
place of those behind one.
*/}}
{{- define "countersign.connectsTo" -}}
{{- $config := include "countersign.givenConfig" . | fromYaml -}}
{{- $servers := list -}}
{{- range $config.environments -}}
{{- $servers = append $servers (list "gateway" .baseUrl .egressProxy) -}}
{{- end -}}
{{- if eq $config.keys.source "vault" -}}
{{- $vault := default dict $config.keys.vault -}}
{{- $servers = append $servers (list "vault" $vault.address $vault.egressProxy) -}}
{{- end -}}
{{- range $config.jwtIssuers -}}
{{- if not (dig "jwks" "file" "" .) -}}
{{- $servers = append $servers (list "jwtIssuers" (dig "jwks" "url" .issuer .) .egressProxy) -}}
{{- end -}}
{{- end -}}
{{- with $config.tracing -}}
{{- $servers = append $servers (list "tracing" .otlp .egressProxy) -}}
{{- end -}}
{{- $store := dig "payments" "once" "store" "memory" $config -}}
{{- if ne $store "memory" -}}
{{- $servers = append $servers (list "claims" $store nil) -}}
{{- end -}}
{{- $kinds := dict -}}
{{- range $servers -}}
{{- $kind := index . 0 -}}
{{- $url := index . 1 -}}
{{- with index . 2 -}}
{{- $kind = "egressProxy" -}}
{{- $url = .url -}}
{{- end -}}
{{- $_ := set $kinds $kind (append (default list (get $kinds $kind)) (include "countersign.port" $url | int)) -}}
{{- end -}}
{{- toYaml $kinds }}
{{- end }}

{{/* The port of a URL. Its host and port may be variables: then the default of its scheme. */}}
{{- define "countersign.port" -}}
{{- $port := regexFind "^[^/]*//[^/?#]*" . | regexFind ":[0-9]+$" | trimPrefix ":" -}}
{{- $defaults := dict "http" "80" "redis" "6379" "rediss" "6379" -}}
{{- default (default "443" (get $defaults (regexFind "^[a-z]+" .))) $port }}
{{- end }}

{{/* "true" if a JWT issuer uses the token or the CA of the Kubernetes API that the chart mounts, else empty. */}}
{{- define "countersign.usesKubernetesApi" -}}
{{- $issuers := toJson (default dict (include "countersign.givenConfig" . | fromYaml).jwtIssuers) -}}
{{- if contains (printf "%s/" (include "countersign.apiTokenDir" .)) $issuers -}}true{{- end }}
{{- end }}

{{/* Host names of a Service, for allowedHosts. Arguments: its name and the root context. */}}
{{- define "countersign.serviceHosts" -}}
{{- $service := index . 0 -}}
{{- $namespaced := printf "%s.%s" $service (index . 1).Release.Namespace -}}
{{- list $service $namespaced (printf "%s.svc" $namespaced) (printf "%s.svc.cluster.local" $namespaced) | toYaml -}}
{{- end }}

{{/* `tls` of a port. Arguments: its values, and the directory of its Secret. */}}
{{- define "countersign.portTls" -}}
{{- $dir := index . 1 -}}
certFile: {{ $dir }}/tls.crt
keyFile: {{ $dir }}/tls.key
{{- with index . 0 }}
{{- if .clientCa }}
clientCaFile: {{ $dir }}/ca.crt
{{- end }}
{{- with .minVersion }}
minVersion: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The configuration file: the given configuration with the settings of the chart. */}}
{{- define "countersign.config" -}}
{{- $config := include "countersign.givenConfig" . | fromYaml -}}
{{- $name := include "countersign.fullname" . -}}
{{- $proxyHosts := concat (dig "proxy" "allowedHosts" list $config) (include "countersign.serviceHosts" (list $name .) | fromYamlArray) -}}
{{- $proxy := dict "host" .Values.listenHost "port" .Values.ports.proxy "allowedHosts" (uniq $proxyHosts) -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $proxy "tls" (include "countersign.portTls" (list .Values.tls (include "countersign.tlsDir" .)) | fromYaml) -}}
{{- end -}}
{{- $hosts := concat (dig "admin" "allowedHosts" list $config) (include "countersign.serviceHosts" (list (printf "%s-admin" $name) .) | fromYamlArray) -}}
{{- $admin := dict "host" .Values.listenHost "port" .Values.ports.admin "allowedHosts" (uniq $hosts) -}}
{{- if .Values.adminTls.enabled -}}
{{- $_ := set $admin "tls" (include "countersign.portTls" (list .Values.adminTls (include "countersign.adminTlsDir" .)) | fromYaml) -}}
{{- end -}}
{{- $config = mergeOverwrite $config (dict "proxy" $proxy "admin" $admin) -}}
{{- if include "countersign.kubernetesAuth" . -}}
{{- $jwtFile := printf "%s/token" (include "countersign.tokenDir" .) -}}
{{- $config = merge $config (dict "keys" (dict "vault" (dict "auth" (dict "jwtFile" $jwtFile)))) -}}
{{- end -}}
{{- if .Values.audit.enabled -}}
{{- $keyFile := printf "%s/%s" (include "countersign.auditKeyDir" .) .Values.audit.secretKey -}}
{{- $directory := ternary (dict "directory" (include "countersign.auditDir" .)) (dict) (not (empty .Values.audit.volume)) -}}
{{- $config = mergeOverwrite $config (dict "audit" (merge (dict "keyFile" $keyFile) $directory)) -}}
{{- end -}}
{{- if eq $config.keys.source "directory" -}}
{{- $config = merge $config (dict "keys" (dict "directory" (include "countersign.keyDir" .))) -}}
{{- end -}}
{{- toYaml $config }}
{{- end }}

{{/* `500ms`, `3s`, `15m`, `12h`, `7d` -> milliseconds. */}}
{{- define "countersign.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 -}}
{{- mul (regexFind "^[0-9]+" .) (get $units (regexFind "[a-z]+$" .)) }}
{{- end }}
