#!/bin/sh
# Serves the live page and the API. Other machines could reach it, so it wants tokens: one of each role is made once.
set -eu
tokens="$STEEPEST_STATE_DIR/gateway-tokens"
if [ ! -s "$tokens" ]; then
  umask 077
  python -c 'for role in ("read", "submit", "operate"): print(role, __import__("secrets").token_urlsafe(24))' > "$tokens.new"
  mv "$tokens.new" "$tokens"
fi
export STEEPEST_GATEWAY_TOKENS="$tokens"
exec steepest-gateway
