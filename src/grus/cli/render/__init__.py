"""Text and tables for the terminal."""
