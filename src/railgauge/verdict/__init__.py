"""From a campaign's folder to accept, reject or inconclusive, with findings.

`compare` reads the folder into cases and rows, `locate` finds what failing cases have in common,
`rules` decides.
"""
