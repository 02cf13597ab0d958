{{/*
What each service may do in the cluster, and nothing else. A service that is not here has no token.

The three that act on jobs see the jobs' pods and the nodes; only one of them makes and stops Jobs, and only one changes limits.
What stands under "users" is for the further namespaces whose users' objects are scheduled: none is made or removed there.
*/}}
{{- define "steepest.rights" -}}
{{- $selects := false -}}
{{- range .Values.pools -}}{{- if not .nodes -}}{{- $selects = true -}}{{- end -}}{{- end -}}
{{- $agents := .Values.nodeAgent.enabled -}}
log-collector:
  namespace: &sees
    - { apiGroups: [""], resources: [pods], verbs: [get, list, watch] }
    {{- if not $agents }}
    - { apiGroups: [""], resources: [pods/log], verbs: [get] }
    {{- end }}
  users: *sees
  cluster:
    - { apiGroups: [""], resources: [nodes], verbs: [list, watch] }
    {{- if $selects }}
    # What pods of others request on a pool's nodes is not the pool's.
    - { apiGroups: [""], resources: [pods], verbs: [list, watch] }
    {{- end }}
    {{- if and .Values.jobs.usage (not $agents) }}
    - { apiGroups: [""], resources: [nodes/stats], verbs: [get] }
    {{- end }}
migrator:
  namespace:
    - { apiGroups: [""], resources: [pods], verbs: [get, list, watch, patch, delete] }
    {{- if not $agents }}
    - { apiGroups: [""], resources: [pods/log], verbs: [get] }
    {{- end }}
    - { apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, patch, delete] }
    - { apiGroups: [""], resources: [services], verbs: [create, delete] }
    {{- if .Values.jobs.systemCheckpoints }}
    # Why a namespace admits no pod with a keeper.
    - { apiGroups: [""], resources: [events], verbs: [list] }
    {{- end }}
    - { apiGroups: [events.k8s.io], resources: [events], verbs: [create] }
    - { apiGroups: [batch], resources: [jobs/status], verbs: [patch] }
    {{- if .Values.optIn.enabled }}
    # A pod that a user's own template makes has no limit yet.
    - { apiGroups: [""], resources: [pods/resize], verbs: [patch] }
    {{- include "steepest.rightsOfKinds" . | nindent 4 }}
    {{- end }}
  users:
    - { apiGroups: [""], resources: [pods], verbs: [get, list, watch, patch, delete] }
    {{- if not $agents }}
    - { apiGroups: [""], resources: [pods/log], verbs: [get] }
    {{- end }}
    - { apiGroups: [batch], resources: [jobs], verbs: [list, watch, patch] }
    - { apiGroups: [events.k8s.io], resources: [events], verbs: [create] }
    - { apiGroups: [batch], resources: [jobs/status], verbs: [patch] }
    - { apiGroups: [""], resources: [pods/resize], verbs: [patch] }
    {{- include "steepest.rightsOfKinds" . | nindent 4 }}
  cluster: &nodes
    - { apiGroups: [""], resources: [nodes], verbs: [list, watch] }
resizer:
  namespace: &resizes
    - { apiGroups: [""], resources: [pods], verbs: [get, list, watch] }
    {{- if not $agents }}
    - { apiGroups: [""], resources: [pods/log], verbs: [get] }
    {{- end }}
    - { apiGroups: [""], resources: [pods/resize], verbs: [patch] }
  users: *resizes
  cluster: *nodes
{{- end -}}

{{/* What the migrator may do with users' objects of the kinds beside Job, and with what Kueue makes of their Jobs. */}}
{{- define "steepest.rightsOfKinds" -}}
{{- if .Values.optIn.kueue }}
- { apiGroups: [kueue.x-k8s.io], resources: [workloads], verbs: [list, patch] }
{{- end }}
{{- if has "JobSet" .Values.optIn.kinds }}
- { apiGroups: [jobset.x-k8s.io], resources: [jobsets], verbs: [list, watch, patch] }
{{- end }}
{{- if has "TrainJob" .Values.optIn.kinds }}
- { apiGroups: [trainer.kubeflow.org], resources: [trainjobs], verbs: [list, watch, patch] }
# The Trainer has put into it what the runtime of a TrainJob says.
- { apiGroups: [jobset.x-k8s.io], resources: [jobsets], verbs: [get] }
{{- end }}
{{- if has "PyTorchJob" .Values.optIn.kinds }}
- { apiGroups: [kubeflow.org], resources: [pytorchjobs], verbs: [list, watch, patch] }
{{- end }}
{{- end -}}
