"""What the model gets besides the prompt: changes in the kernel, mentions, the last error."""
