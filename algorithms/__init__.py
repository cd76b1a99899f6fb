"""Private algorithms, line by line after their papers, with their environments and data.

Wherever a public parameter is out of range, of another shape or unknown, `InvalidParameter` is raised.
Records that are not as declared raise `DataError`, whose message is for the data's holder alone.
"""
