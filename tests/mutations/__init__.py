"""Mutations of the package: small changes of its code, each of which breaks a promise that some test must notice."""
