"""Tools of the documentation: reading its Markdown, generating its pages, building the site."""
