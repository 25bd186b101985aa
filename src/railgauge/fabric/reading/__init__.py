"""Readers of what infiniband-diags, opensm and ibdiagnet2 print. Pure: text to values.

ParseError names the line of what is no such output, and of an output that is not whole.
"""
