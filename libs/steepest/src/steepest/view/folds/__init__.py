"""How each event changes the view: one fold a kind of event."""
