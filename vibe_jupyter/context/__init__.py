"""What the model is told besides the prompt: changes in the kernel, mentions, the last error."""
