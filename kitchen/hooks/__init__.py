"""The MkDocs hooks of the site, one module a job; `hooks:` in mkdocs.yml lists them in the order they run."""
