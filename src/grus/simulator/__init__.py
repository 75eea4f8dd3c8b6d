"""The future, faster: the production scheduler in virtual time. Pure; chance and time are passed in."""
