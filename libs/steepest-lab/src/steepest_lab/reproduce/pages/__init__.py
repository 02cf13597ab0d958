"""Parts of experiment reports: templates, colours, and pictures inside a page."""
