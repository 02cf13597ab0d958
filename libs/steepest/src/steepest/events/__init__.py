"""Every message that crosses a topic, and the one registry of them."""
