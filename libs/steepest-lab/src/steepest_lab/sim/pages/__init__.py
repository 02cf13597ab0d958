"""What reports of experiments are made of: templates, colours, and pictures that stand inside a page."""
