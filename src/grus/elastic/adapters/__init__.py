"""Adapters: other frameworks' APIs for elastic training, on top of this runtime."""
