#!/usr/bin/env bash
# What does the run of a Streamlit page cost beside the libraries of machine learning it imports?
#
# streamlit 1.67.0, Python 3.11: after each run of a script, and before it reports the run's end to
# the browser, Streamlit collects garbage of all generations (runner.postScriptGC, on by default).
# The collection visits every object of every imported library. Beside scikit-learn 1.9.1,
# scikit-image 0.26.0 and sympy 1.14.0 a page of one line takes several times as long as alone;
# beside torch and OpenCV it was 130 of the 180 ms of a page change. gc.freeze() after the imports
# takes that back and keeps the collections.
#
# The script serves that page alone, beside the libraries, and after gc.freeze(), and times 20 runs
# over the WebSocket, from the request to the message that the script has finished. It fails where
# the libraries cost less than a factor of two, or where freezing does not take half of it back.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    streamlit==1.67.0 scikit-learn==1.9.1 scikit-image==0.26.0 sympy==1.14.0 2>"$folder/log"
cat >"$folder/page.py" <<'PYTHON'
import gc
import os

import streamlit

libraries = os.environ["LIBRARIES"].split()
for library in libraries:
    __import__(library)
if os.environ["FREEZE"] == "yes" and gc.get_freeze_count() == 0:
    gc.collect()
    gc.freeze()
streamlit.title("Page")
PYTHON
cat >"$folder/measure.py" <<'PYTHON'
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

LIBRARIES = "sklearn.ensemble sklearn.manifold skimage.segmentation skimage.metrics sympy"


def run_page(socket):
    """Milliseconds from the request of a run to the message that it has finished."""
    message = BackMsg()
    message.rerun_script.SetInParent()
    began = time.perf_counter()
    socket.send(message.SerializeToString())
    while True:
        answer = ForwardMsg.FromString(socket.recv(timeout=60))
        if answer.WhichOneof("type") == "script_finished":
            return 1000 * (time.perf_counter() - began)


def measure(title, libraries, freeze):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--server.port", str(port), "--server.headless", "true"]
    options += ["--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none"]
    server = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", "page.py", *options],
        env={**os.environ, "LIBRARIES": libraries, "FREEZE": freeze},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5)
                break
            except OSError:
                time.sleep(0.5)
        with connect(f"ws://127.0.0.1:{port}/_stcore/stream", max_size=None) as stream:
            run_page(stream)
            run_page(stream)
            median = statistics.median(run_page(stream) for _ in range(20))
    finally:
        server.terminate()
        server.wait()
    print(f"{title}: {median:.0f} ms per run")
    return median


alone = measure("alone", "", "no")
beside = measure("beside the libraries", LIBRARIES, "no")
frozen = measure("beside the libraries, after gc.freeze()", LIBRARIES, "yes")
assert beside > 2 * alone, "the libraries cost little: out of date"
assert frozen - alone < (beside - alone) / 2, "freezing does not help: out of date"
PYTHON
cd "$folder"
venv/bin/python measure.py
