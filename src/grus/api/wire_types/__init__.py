"""Bodies of HTTP requests and answers, one module for each kind of resource."""
