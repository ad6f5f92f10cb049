"""Context sent to the model besides the prompt: changes in the kernel, mentions, the last error."""
