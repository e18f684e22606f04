{{/*
A rule file with the thresholds and the runbook URL from the values. A comment on a line of an expression marks its
thresholds: `> 0.02 # threshold: gatewayRejectionsRatio=0.02`.
*/}}
{{- define "countersign.rules" -}}
{{- $thresholds := .thresholds -}}
{{- $lines := list -}}
{{- range splitList "\n" .text -}}
{{- $line := replace "runbook_url: deploy/runbook.md" (printf "runbook_url: %s" $.runbook) . -}}
{{- range regexFindAll "[A-Za-z]+=[0-9.]+" (regexFind "# threshold: .*" $line) -1 -}}
{{- $marked := splitn "=" 2 . -}}
{{- $number := printf "([ (])%s([ ,)])" (regexQuoteMeta $marked._1) -}}
{{- $line = regexReplaceAll $number $line (printf "${1}%v${2}" (get $thresholds $marked._0)) -}}
{{- $line = replace . (printf "%s=%v" $marked._0 (get $thresholds $marked._0)) $line -}}
{{- end -}}
{{- $lines = append $lines $line -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end }}
