#!/bin/sh
# Submits the demo's kinds of job, one every few seconds. LENGTH: percent of their steps (100).
set -eu
submit() {
  steepest submit -- python -m "steepest_lab.jobs.$1" --steps $(($2 * ${LENGTH:-100} / 100))
  sleep "${GAP:-2}"
}
submit softmax 900
submit linear 900
submit vae 1050
submit gru 950
submit factorisation 1300
submit mixture 1000
submit charlm 1050
submit mlp 1150
