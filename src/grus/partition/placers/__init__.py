"""Placers, a file each: from graph and devices to a placement, or to the operator that has no place.

m-TOPO, m-ETF and m-SCT follow the rules of Baechi (arXiv 2301.08695), with differing caps, a link for each
pair of devices and groups whose memory is reserved with their first operator.
"""
