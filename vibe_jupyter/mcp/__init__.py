"""Servers of further tools, spoken to by the Model Context Protocol. The SDK is imported when the first one starts."""
