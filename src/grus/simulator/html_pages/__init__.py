"""HTML pages of one file: style, tables, charts."""
