"""Running a program for the model: its environment, its process tree, its output."""
