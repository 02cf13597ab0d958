"""The ordered log on Apache Kafka."""

from __future__ import annotations

import logging

# The client logs every failed attempt, several times a second; its caller reports the outcome.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
