"""The model's chair: eleven jobs of a data scientist, done by a scripted expert who knows only what the requests say.

`make chair` prints what each job cost; `make chair MODEL=name@url` has a real model do the same jobs.
"""
