{{/* The folders of a node that its agent reads, by the name of their volumes. */}}
{{- define "steepest.nodeFiles" -}}
pod-logs: {{ .Values.nodeAgent.podLogs | splitList "/$(NODE)/" | first | quote }}
{{- if .Values.jobs.usage }}
cgroups: /sys/fs/cgroup
{{- end }}
{{- end -}}

{{/* Where they are mounted; the agent knows these places. */}}
{{- define "steepest.agentMounts" -}}
{{- $below := .Values.nodeAgent.podLogs | splitList "/$(NODE)/" | rest -}}
- name: pod-logs
  mountPath: /host/pod-logs
  {{- with $below }}
  subPathExpr: $(STEEPEST_AGENT_NODE)/{{ first . }}
  {{- end }}
  readOnly: true
  recursiveReadOnly: IfPossible
{{- if .Values.jobs.usage }}
- { name: cgroups, mountPath: /host/cgroup, readOnly: true, recursiveReadOnly: IfPossible }
{{- end }}
{{- end -}}
