"""How processes are composed: settings, state folder, services, signals."""
