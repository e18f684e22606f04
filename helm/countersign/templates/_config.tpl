{{/* What the user wrote, or the placeholder. */}}
{{- define "countersign.givenConfig" -}}
{{- if .Values.config }}{{ toYaml .Values.config }}{{ else }}{{ .Files.Get "files/placeholder-config.yaml" }}{{ end }}
{{- end }}

{{/* "true" when the pod logs in to Vault with its service account, else nothing. */}}
{{- define "countersign.kubernetesAuth" -}}
{{- $keys := (include "countersign.givenConfig" . | fromYaml).keys -}}
{{- if and (eq $keys.source "vault") (eq (dig "auth" "method" "" (default dict $keys.vault)) "kubernetes") -}}true{{- end }}
{{- end }}

{{/* The configuration file: what was given, and what only the chart can know. */}}
{{- define "countersign.config" -}}
{{- $config := include "countersign.givenConfig" . | fromYaml -}}
{{- $proxy := dict "host" "0.0.0.0" "port" .Values.ports.proxy -}}
{{- if .Values.tls.enabled -}}
{{- $dir := include "countersign.tlsDir" . -}}
{{- $tls := dict "certFile" (printf "%s/tls.crt" $dir) "keyFile" (printf "%s/tls.key" $dir) -}}
{{- if .Values.tls.clientCa -}}{{- $_ := set $tls "clientCaFile" (printf "%s/ca.crt" $dir) -}}{{- end -}}
{{- $_ := set $proxy "tls" $tls -}}
{{- end -}}
{{- $admin := dict "host" "0.0.0.0" "port" .Values.ports.admin -}}
{{- $config = mergeOverwrite $config (dict "proxy" $proxy "admin" $admin) -}}
{{- if include "countersign.kubernetesAuth" . -}}
{{- $jwtFile := printf "%s/token" (include "countersign.tokenDir" .) -}}
{{- $config = merge $config (dict "keys" (dict "vault" (dict "auth" (dict "jwtFile" $jwtFile)))) -}}
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

{{/* Refuses a grace period that ends before the drain, or before an exchange that began with the last request. */}}
{{- define "countersign.checkGracePeriod" -}}
{{- $config := include "countersign.givenConfig" . | fromYaml -}}
{{- $left := mul 1000 (sub .Values.terminationGracePeriodSeconds .Values.preStopSeconds) | int64 -}}
{{- $waits := dict "proxy.deadlines.drain" (dig "proxy" "deadlines" "drain" "35s" $config) -}}
{{- range $name, $environment := $config.environments -}}
{{- $key := printf "environments.%s.deadlines.exchange" $name -}}
{{- $_ := set $waits $key (dig "deadlines" "exchange" "30s" $environment) -}}
{{- end -}}
{{- range $key, $duration := $waits -}}
{{- if ge (include "countersign.milliseconds" $duration | int64) $left -}}
{{- fail (printf "terminationGracePeriodSeconds (%v) less preStopSeconds (%v) must be longer than config.%s (%s): a stopping pod would cut off exchanges and leave their outcome unknown" $.Values.terminationGracePeriodSeconds $.Values.preStopSeconds $key $duration) -}}
{{- end -}}
{{- end -}}
{{- end }}
