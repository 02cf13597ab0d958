"""How commands show what they found: tables, timelines, the one door to standard output."""
