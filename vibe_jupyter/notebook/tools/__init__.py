"""The tools for cells and code of the notebook."""
