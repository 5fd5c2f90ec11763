"""A party's trust boundary: it keeps keys and data, and answers each stage of a round once. See README.md.

Import from the modules: the Flower shim needs `client` alone, and must not load what the vault itself needs.
"""
