"""Ways to place operators, a file each: graph and devices in, a placement or what has no place out.

m-TOPO, m-ETF and m-SCT follow the rules of Baechi (arXiv 2301.08695), with differing caps, a link for each
pair of devices and groups whose memory is reserved with their first operator.
"""
