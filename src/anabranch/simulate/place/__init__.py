"""PLACE* in one process: the paper's objects, queries, servers and messages (section 6)."""
