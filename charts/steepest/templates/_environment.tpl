{{/* Where the log is, as variables: (dict "root" $ "part" "placer"). */}}
{{- define "steepest.kafka" -}}
{{- $kafka := .root.Values.kafka -}}
{{- $name := include "steepest.name" .root -}}
{{- $service := include "steepest.service" . | fromYaml -}}
{{- $login := default $kafka.loginSecret $service.kafkaLoginSecret -}}
- { name: STEEPEST_KAFKA_PREFIX, value: {{ $kafka.prefix | quote }} }
{{- if $kafka.broker.enabled }}
- { name: STEEPEST_KAFKA, value: "{{ $name }}-kafka:9092" }
- { name: STEEPEST_KAFKA_SECURITY, value: SASL_PLAINTEXT }
- { name: STEEPEST_KAFKA_SASL_MECHANISM, value: PLAIN }
- { name: STEEPEST_KAFKA_USERNAME, valueFrom: { secretKeyRef: { name: {{ $name }}-kafka, key: username } } }
- { name: STEEPEST_KAFKA_PASSWORD, valueFrom: { secretKeyRef: { name: {{ $name }}-kafka, key: password } } }
{{- else }}
- { name: STEEPEST_KAFKA, value: {{ required "kafka.bootstrap names the Kafka cluster; for trials set kafka.broker.enabled" $kafka.bootstrap | quote }} }
- { name: STEEPEST_KAFKA_SECURITY, value: {{ $kafka.security }} }
{{- if hasPrefix "SASL" $kafka.security }}
- { name: STEEPEST_KAFKA_SASL_MECHANISM, value: {{ $kafka.mechanism }} }
- { name: STEEPEST_KAFKA_USERNAME, valueFrom: { secretKeyRef: { name: {{ required "kafka.loginSecret has the login for SASL" $login | quote }}, key: username } } }
- { name: STEEPEST_KAFKA_PASSWORD, valueFrom: { secretKeyRef: { name: {{ $login | quote }}, key: password } } }
{{- end }}
{{- if $kafka.caSecret }}
- { name: STEEPEST_KAFKA_CA_FILE, value: /etc/steepest/kafka-ca/ca.crt }
{{- end }}
{{- if $kafka.certificateSecret }}
- { name: STEEPEST_KAFKA_CERT_FILE, value: /etc/steepest/kafka-certificate/tls.crt }
- { name: STEEPEST_KAFKA_KEY_FILE, value: /etc/steepest/kafka-certificate/tls.key }
{{- end }}
{{- end }}
{{- end -}}

{{/* The state folder of a part: on the volume that jobs share, for those that act on jobs; else its own, and gone with its pod. */}}
{{- define "steepest.state" -}}
{{- $acts := hasKey (include "steepest.rights" .root | fromYaml) .part -}}
{{ include "steepest.volume" .root }}{{ if $acts }}/{{ include "steepest.name" .root }}{{ end }}
{{- end -}}

{{/* The variables of every container of the image: the installation, the log, and what the values add: (dict "root" $ "part" "placer"). */}}
{{- define "steepest.environment" -}}
- { name: STEEPEST_STATE_DIR, value: {{ include "steepest.state" . }} }
- { name: STEEPEST_INSTALLATION_FILE, value: /etc/steepest/installation/installation.toml }
{{ include "steepest.kafka" . }}
{{- range $name, $value := .root.Values.extraEnv }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end -}}

{{/* Volumes that every pod of the image has, but for the one with the state. */}}
{{- define "steepest.volumes" -}}
- { name: installation, configMap: { name: {{ include "steepest.name" . }}-installation } }
- { name: tmp, emptyDir: {} }
{{- if not .Values.kafka.broker.enabled }}
{{- with .Values.kafka.caSecret }}
- { name: kafka-ca, secret: { secretName: {{ . | quote }} } }
{{- end }}
{{- with .Values.kafka.certificateSecret }}
- { name: kafka-certificate, secret: { secretName: {{ . | quote }}, defaultMode: 0440 } }
{{- end }}
{{- end }}
{{- end -}}

{{- define "steepest.mounts" -}}
- { name: installation, mountPath: /etc/steepest/installation, readOnly: true }
- { name: state, mountPath: {{ include "steepest.volume" . }} }
- { name: tmp, mountPath: /tmp }
{{- if not .Values.kafka.broker.enabled }}
{{- if .Values.kafka.caSecret }}
- { name: kafka-ca, mountPath: /etc/steepest/kafka-ca, readOnly: true }
{{- end }}
{{- if .Values.kafka.certificateSecret }}
- { name: kafka-certificate, mountPath: /etc/steepest/kafka-certificate, readOnly: true }
{{- end }}
{{- end }}
{{- end -}}
