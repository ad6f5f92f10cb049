"""The routes, a module for each group."""
