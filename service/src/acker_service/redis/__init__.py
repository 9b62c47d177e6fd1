"""The driver: the only package that imports redis-py, spells keys or names a Lua function."""
