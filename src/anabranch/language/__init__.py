"""The language of queries: text in, bound specs out.

    text --parse--> syntax tree --bind--> Bound(stream, family, spec) --unparse--> canonical text

The text is SQL or WXQuery (`wxquery/`). `bind.compile_query(text, streams)` does the first two. Whatever is
wrong with a query is said here, as a QueryError that points into the text.
"""
