"""``python -m steepest_mqtt_bridge``."""

from steepest_mqtt_bridge import main

main()
