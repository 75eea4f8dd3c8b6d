"""Routes of the pages, one module for each page."""
