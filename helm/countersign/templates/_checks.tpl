{{/*
Rejects values that Kubernetes, Prometheus or Countersign would reject or misread later, all at once. For checks that
values.schema.json cannot express, or only without a helpful message.
*/}}
{{- define "countersign.checkValues" -}}
{{- $checks := list "checkFiles" "checkNames" "checkPorts" "checkFamilies" "checkScrape" "checkDuplicates" "checkEnv" "checkAudit" "checkClaims" "checkVariables" "checkPlaintext" "checkEgress" -}}
{{- $problems := list -}}
{{- range $checks -}}
{{- with include (printf "countersign.%s" .) $ | fromYamlArray -}}
{{- $problems = concat $problems . -}}
{{- end -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n- %s" (join "\n- " $problems)) -}}
{{- end -}}
{{- include "countersign.checkGracePeriod" . -}}
{{- end }}

{{/* They are links in a checkout, which not every way to pack or copy a chart follows. */}}
{{- define "countersign.checkFiles" -}}
{{- $problems := list -}}
{{- range $value, $files := dict "prometheusRule" "files/prometheus/*.rules.yaml" "dashboards" "files/dashboards/*.json" -}}
{{- if and (get $.Values $value).enabled (not ($.Files.Glob $files)) -}}
{{- $problems = append $problems (printf "%s is enabled, but this copy of the chart has no %s: take the chart of a release, or pack a checkout with helm package" $value $files) -}}
{{- end -}}
{{- end -}}
{{- with $problems }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Service names are DNS labels that begin with a letter. */}}
{{- define "countersign.checkNames" -}}
{{- $name := include "countersign.fullname" . -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) -}}
{{- list (printf "Kubernetes rejects %q as a Service name: set fullnameOverride to a name of lower-case letters, digits and hyphens that begins with a letter" $name) | toYaml -}}
{{- end -}}
{{- end }}

{{- define "countersign.checkPorts" -}}
{{- if eq (int .Values.ports.proxy) (int .Values.ports.admin) -}}
{{- list (printf "ports.proxy and ports.admin are both %v: choose two different ports, since the pod listens on both" .Values.ports.proxy) | toYaml -}}
{{- end -}}
{{- end }}

{{- define "countersign.checkFamilies" -}}
{{- if and (eq .Values.listenHost "0.0.0.0") (or (has "IPv6" .Values.ipFamilies) (eq .Values.ipFamilyPolicy "RequireDualStack")) -}}
{{- list "listenHost 0.0.0.0 is IPv4 alone, and the Services have IPv6: set listenHost to \"::\", which is both, or take IPv6 from ipFamilies and ipFamilyPolicy" | toYaml -}}
{{- end -}}
{{- end }}

{{- define "countersign.checkScrape" -}}
{{- $problems := list -}}
{{- with .Values.serviceMonitor -}}
{{- if gt (include "countersign.milliseconds" .scrapeTimeout | int64) (include "countersign.milliseconds" .interval | int64) -}}
{{- $problems = append $problems (printf "serviceMonitor.scrapeTimeout (%s) is longer than serviceMonitor.interval (%s), which Prometheus rejects: shorten the timeout or lengthen the interval" .scrapeTimeout .interval) -}}
{{- end -}}
{{- if and .enabled $.Values.adminTls.enabled $.Values.adminTls.clientCa (not .tlsConfig.cert) -}}
{{- $problems = append $problems "adminTls.clientCa requires a client certificate for metrics: set serviceMonitor.tlsConfig.cert and serviceMonitor.tlsConfig.keySecret to that of Prometheus" -}}
{{- end -}}
{{- end -}}
{{- with $problems }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Volume names and key files must be unique. */}}
{{- define "countersign.checkDuplicates" -}}
{{- $problems := list -}}
{{- $names := list -}}
{{- range .Values.secretFiles -}}
{{- if has .name $names -}}
{{- $problems = append $problems (printf "secretFiles has two entries named %q: give each a unique name, which is its directory" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $files := list -}}
{{- range $key := .Values.keySecrets -}}
{{- range $key.entries -}}
{{- $file := printf "%s/%s/%s" $key.environment $key.login . -}}
{{- if has $file $files -}}
{{- $problems = append $problems (printf "keySecrets has two sources for %s: remove one of them" $file) -}}
{{- end -}}
{{- $files = append $files $file -}}
{{- end -}}
{{- end -}}
{{- with $problems }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Countersign rejects bearer tokens and JWTs on a port without TLS, unless config.proxy.allowPlaintext is true. */}}
{{- define "countersign.checkPlaintext" -}}
{{- $config := include "countersign.givenConfig" . | fromYaml -}}
{{- $names := list -}}
{{- range $config.callers -}}
{{- $caller := .name -}}
{{- range .credentials -}}
{{- if or .tokenSha256 .jwt -}}{{- $names = append $names $caller -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $names (not .Values.tls.enabled) (not (dig "proxy" "allowPlaintext" false $config)) -}}
{{- list (printf "%s would send a bearer token without TLS: set tls.enabled and tls.secretName, or, if a service mesh encrypts the connections, config.proxy.allowPlaintext: true" (join ", " (uniq $names))) | toYaml -}}
{{- end -}}
{{- end }}

{{/* An empty list of peers would allow all. */}}
{{- define "countersign.checkEgress" -}}
{{- $problems := list -}}
{{- $kinds := include "countersign.connectsTo" . | fromYaml -}}
{{- range $kind, $what := dict "egressProxy" "the egressProxy of config" "claims" "config.payments.once.store" -}}
{{- if and $.Values.networkPolicy.enabled (hasKey $kinds $kind) (not (get $.Values.networkPolicy $kind).to) -}}
{{- $problems = append $problems (printf "the network policy would block %s: set networkPolicy.%s.to to its address, such as [{ ipBlock: { cidr: 10.0.8.4/32 } }]" $what $kind) -}}
{{- end -}}
{{- end -}}
{{- with $problems }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Values of environment variables must be strings, and YAML reads 8 and true as other types. */}}
{{- define "countersign.checkEnv" -}}
{{- $problems := list -}}
{{- range .Values.extraEnv -}}
{{- if and (hasKey . "value") (not (kindIs "string" .value)) -}}
{{- $problems = append $problems (printf "the value of %s in extraEnv is not a string: quote it, value: \"%v\" (or --set-string)" .name .value) -}}
{{- end -}}
{{- end -}}
{{- with $problems }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* The section of the configuration is what the chart does not set. */}}
{{- define "countersign.checkAudit" -}}
{{- $audit := default dict (include "countersign.givenConfig" . | fromYaml).audit -}}
{{- if and $audit (not .Values.audit.enabled) -}}
{{- list "config.audit has no key: set audit.enabled and audit.secretName" | toYaml -}}
{{- end -}}
{{- if and .Values.audit.enabled $audit.sync (not .Values.audit.volume) -}}
{{- list "config.audit.sync needs a directory: set audit.volume, since standard output cannot be written through to a disk" | toYaml -}}
{{- end -}}
{{- end }}

{{/* Each ${NAME} in the configuration must be an environment variable of the container; $${ is a literal ${. */}}
{{- define "countersign.checkVariables" -}}
{{- $problems := list -}}
{{- $provided := list -}}
{{- range concat .Values.secretEnv .Values.extraEnv -}}
{{- $provided = append $provided .name -}}
{{- end -}}
{{- range regexFindAll "\\$\\$\\{|\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}" (include "countersign.givenConfig" .) -1 | uniq -}}
{{- $name := trimAll "${}" . -}}
{{- if and $name (not (has $name $provided)) -}}
{{- $problems = append $problems (printf "config uses %s, but %s is not set: add { name: %s, secretName: ..., key: ... } to secretEnv" . $name $name) -}}
{{- end -}}
{{- end -}}
{{- with $problems }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Each pod would claim order IDs for itself. */}}
{{- define "countersign.checkClaims" -}}
{{- $once := dig "payments" "once" dict (include "countersign.givenConfig" . | fromYaml) -}}
{{- if and (eq (default "" $once.store) "memory") (or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1)) -}}
{{- list "config.payments.once.store is memory, which several pods do not share, so each of them would send a payment once: name a Redis or Valkey, or set replicaCount: 1 and autoscaling.enabled: false" | toYaml -}}
{{- end -}}
{{- end }}

{{/*
Rejects a grace period that is shorter than a shutdown. A shutdown takes preStopSeconds, the shutdown delay, up to 1 s for idle
connections, the shutdown timeout (or the timeout of an upstream request, if that is longer), with a store of payments.once twice
its timeout (it responds to a claim, and removes it), and 1 s to exit; 5 s are kept in reserve.
*/}}
{{- define "countersign.checkGracePeriod" -}}
{{- $config := include "countersign.givenConfig" . | fromYaml -}}
{{- $delay := dig "proxy" "timeouts" "shutdownDelay" "5s" $config -}}
{{- $longest := dict "key" "proxy.timeouts.shutdown" "duration" (dig "proxy" "timeouts" "shutdown" "35s" $config) -}}
{{- range $name, $environment := $config.environments -}}
{{- $request := dig "timeouts" "request" "30s" $environment -}}
{{- if gt (include "countersign.milliseconds" $request | int64) (include "countersign.milliseconds" $longest.duration | int64) -}}
{{- $longest = dict "key" (printf "environments.%s.timeouts.request" $name) "duration" $request -}}
{{- end -}}
{{- end -}}
{{- $delays := add (include "countersign.milliseconds" $delay | int64) (include "countersign.milliseconds" $longest.duration | int64) -}}
{{- $ofStore := "" -}}
{{- $once := dig "payments" "once" dict $config -}}
{{- if and $once (ne (default "" $once.store) "memory") -}}
{{- $timeout := default "1s" $once.timeout -}}
{{- $delays = add $delays (mul 2 (include "countersign.milliseconds" $timeout | int64)) -}}
{{- $ofStore = printf " + twice config.payments.once.timeout (%s)" $timeout -}}
{{- end -}}
{{- $needed := add .Values.preStopSeconds (div (add $delays 999) 1000) 7 -}}
{{- if lt (int64 .Values.terminationGracePeriodSeconds) $needed -}}
{{- fail (printf "terminationGracePeriodSeconds (%v) must be at least %v: preStopSeconds (%v) + config.proxy.timeouts.shutdownDelay (%s) + 1s to close idle connections + config.%s (%s)%s + 1s to end + 5s in reserve. A pod that is killed earlier cuts off payments and leaves their outcome unknown. Raise it, or shorten one of the others" .Values.terminationGracePeriodSeconds $needed .Values.preStopSeconds $delay $longest.key $longest.duration $ofStore) -}}
{{- end -}}
{{- end }}
