{{- define "steepest.name" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "steepest.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/* Labels by which the pods of a part are selected: (dict "root" $ "part" "placer"). */}}
{{- define "steepest.selector" -}}
app.kubernetes.io/name: steepest
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "steepest.labels" -}}
{{ include "steepest.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* What a service has: the defaults, and over them its own values. */}}
{{- define "steepest.service" -}}
{{- $own := default dict (get .root.Values.services .part) -}}
{{- mergeOverwrite (deepCopy .root.Values.serviceDefaults) (deepCopy $own) | toYaml -}}
{{- end -}}

{{/* The names of the services that are installed, as a list in JSON. */}}
{{- define "steepest.installed" -}}
{{- $names := list -}}
{{- range $part, $_ := .Values.services -}}
{{- $service := include "steepest.service" (dict "root" $ "part" $part) | fromYaml -}}
{{- if gt (int $service.replicas) 0 -}}{{- $names = append $names $part -}}{{- end -}}
{{- end -}}
{{- $names | toJson -}}
{{- end -}}

{{- define "steepest.volume" -}}/var/lib/steepest{{- end -}}

{{/* What pods and containers have in common that run the services' image. */}}
{{- define "steepest.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.user }}
runAsGroup: {{ .Values.user }}
fsGroup: {{ .Values.user }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "steepest.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* Whether a part runs on each node, as the agent there: (dict "root" $ "part" "placer"). */}}
{{- define "steepest.isAgent" -}}
{{- if and .root.Values.nodeAgent.enabled (eq .part "log-collector") -}}true{{- end -}}
{{- end -}}

{{/* Who gates users' Jobs: a "policy" of the API server's own, or a "webhook" of this release; nothing where users' Jobs are not gated. */}}
{{- define "steepest.gates" -}}
{{- if .Values.optIn.enabled -}}
{{- default (semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version | ternary "policy" "webhook") .Values.optIn.by -}}
{{- end -}}
{{- end -}}

{{/* Namespaces beside the release's own whose users' objects are scheduled, as a list in JSON. */}}
{{- define "steepest.furtherNamespaces" -}}
{{- $further := ternary .Values.optIn.namespaces list .Values.optIn.enabled -}}
{{- if has .Release.Namespace $further -}}
{{- fail (printf "optIn.namespaces: %s is the release's own namespace, which optIn.ownNamespace opens" .Release.Namespace) -}}
{{- end -}}
{{- $further | toJson -}}
{{- end -}}

{{/* The selector of the namespaces that are open for users' objects, in one line. */}}
{{- define "steepest.openNamespaces" -}}
{{- $further := include "steepest.furtherNamespaces" . | fromJsonArray -}}
{{- if and (not $further) (not .Values.optIn.ownNamespace) -}}
{{- fail "optIn.namespaces names the namespaces of users' objects; optIn.ownNamespace opens the release's own, where who makes pods reaches all files and Secrets" -}}
{{- end -}}
{{- if $further -}}
{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: {{ ternary (prepend $further .Release.Namespace) $further .Values.optIn.ownNamespace | toJson }}}]}
{{- else -}}
{matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace | quote }}}}
{{- end -}}
{{- end -}}

{{/* The folders of those queues whose jobs' files are not in the state folder itself but in that of another pool, in JSON. */}}
{{- define "steepest.queueFolders" -}}
{{- $folders := dict }}
{{- range rest .Values.pools }}
{{- $pool := .name }}
{{- range .queues }}{{- $_ := set $folders . (printf "/pools/%s" $pool) }}{{- end }}
{{- end }}
{{- $folders | toJson }}
{{- end -}}
