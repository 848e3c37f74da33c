"""WXQuery, the query language of StreamGlobe (section 3 and appendix B), as far as select and aggregate go.

    text --parse--> Query --bind--> a spec of filters, and a Construction

The spec is the one that SQL would give, so that queries of both languages share. What the paper leaves to
post-processing (new elements, their order, conditionals) is the Construction; it is applied on delivery.
"""
