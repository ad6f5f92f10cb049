"""A llama.cpp server in a process of its own: `python llama_program.py SETTINGS`, where SETTINGS is a JSON object.

`xllamacpp`, the package with the server, is on its path only. With `"once": true` it says one word and ends.
"""

import json
import signal
import sys

import xllamacpp


def main() -> None:
    """Serve until the process is killed."""
    settings = json.loads(sys.argv[1])
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.hostnames, params.port = [settings["host"]], settings["port"]
    params.api_keys = [settings["key"]]
    params.n_ctx, params.n_parallel = settings["context"] * settings["conversations"], settings["conversations"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja, params.chat_template = bool(settings["template"]), settings["template"]
    params.ui, params.fit_params = False, False  # the second: it loads the model twice
    server = xllamacpp.Server(params)  # answers 503 until the model is loaded, then returns
    if settings["once"]:
        print(server.handle_completions({"prompt": "One, two,", "max_tokens": 1})["object"])
        return
    while server.listening_address:
        signal.pause()


if __name__ == "__main__":
    main()
