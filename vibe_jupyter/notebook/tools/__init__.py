"""Tools for cells and code of the notebook."""
