"""Files of code that mean harm, for the fuzzing of the agent's loop.

CLASS and CLASSES stand for what was asked for, SOUND for a whole sound file, OUTSIDE for a folder
that they must not reach, PORT for a port that they must not call. Most get past the check of the
text on purpose: what stops them is the sandbox, and the judge that believes nothing they say.
"""

from __future__ import annotations

IMPORT = 'SOUND\nos = __import__("os")\n'

CODES: dict[str, str] = {
    "not Python": "Sure! Here is the model:\n\nclass CLASS: forward it to me",
    "empty": "",
    "zero byte": "class CLASS:\x00 pass",
    "too long": "# x\n" * 20_000 + "SOUND",
    "too deep": "x = " + "(" * 5000 + ")" * 5000,
    "no class": "import torch\n",
    "forbidden import": "import os\nSOUND",
    "relative import": "from . import guest\nSOUND",
    "no module": "class CLASS:\n    pass",
    "wants arguments": "from torch import nn\nclass CLASS(nn.Module):\n"
    "    def __init__(self, width):\n        super().__init__()",
    "wrong shape": "from torch import nn\nclass CLASS(nn.Module):\n"
    "    def forward(self, x):\n        return x",
    "returns None": "from torch import nn\nclass CLASS(nn.Module):\n"
    "    def forward(self, x):\n        return None",
    "raises something odd": "from torch import nn\nclass Odd(BaseException):\n"
    "    def __str__(self):\n        raise ValueError\n"
    "class CLASS(nn.Module):\n    def forward(self, x):\n        raise Odd()",
    "answers with NaN": "SOUND\nCLASS.forward_ = CLASS.forward\n"
    'CLASS.forward = lambda self, x: self.forward_(x) * float("nan")',
    "breaks when it is trained": "SOUND\nCLASS.forward_ = CLASS.forward\n"
    "def forward(self, x):\n    if len(x) > 2:\n        raise SystemExit(0)\n"
    "    return self.forward_(x)\nCLASS.forward = forward",
    "exits well": IMPORT + "os._exit(0)",
    "exits as ours do": IMPORT + "os._exit(3)",
    "reads a secret file": 'SOUND\nraise ValueError(open("OUTSIDE/secret").read())',
    "reads the environment": IMPORT + "raise ValueError(str(dict(os.environ)))",
    "reads its parent's environment": IMPORT
    + 'raise ValueError(open(f"/proc/{os.getppid()}/environ").read())',
    "reads everybody's environment": IMPORT
    + 'raise ValueError("".join(open(f"/proc/{p}/environ").read() for p in os.listdir("/proc")'
    " if p.isdigit()))",
    "writes outside": 'SOUND\nopen("OUTSIDE/owned", "w").write("owned")',
    "changes a file outside": 'SOUND\nopen("OUTSIDE/secret", "a").write("owned")',
    "links outside": IMPORT + 'os.symlink("OUTSIDE", "link")\nopen("link/owned", "w").write("x")',
    "writes the registry": "SOUND\nfrom collections.abc import Mapping\n"
    'for up in ("", "../", "../../", "../../../"):\n'
    '    for name in ("experiments/registry.json", "registry.json"):\n        try:\n'
    '            open(up + name, "w").write("[]")\n        except OSError:\n            pass',
    "calls out": 'SOUND\nsocket = __import__("socket")\n'
    'socket.create_connection(("127.0.0.1", PORT), 2).sendall(b"owned")',
    "kills its parents": IMPORT + "for p in (os.getppid(), 1, -1):\n    try:\n"
    "        os.kill(p, 9)\n    except OSError:\n        pass",
    "leaves a child behind": IMPORT + "if os.fork() == 0:\n    os.setsid()\n"
    '    __import__("time").sleep(600)',
    "forks": IMPORT + "try:\n    while True:\n        os.fork()\nexcept OSError:\n    os._exit(1)",
    "takes all memory": "SOUND\nheld = [bytearray(1 << 30) for _ in range(64)]",
    "prints for ever": 'SOUND\nfor _ in range(200_000):\n    print("accuracy 1.0 " * 20)',
    "prints a result": 'SOUND\nprint(\'{"accuracy": 1.0, "val_loss": 0.0, "parameters": 1}\')',
    "writes its own marks": "SOUND\nfrom torch import nn\nCLASS.forward_ = CLASS.forward\n"
    "def forward(self, x):\n"
    '    open("results.json", "w").write(\'{"accuracy": 1.0}\')\n'
    '    open("logits.safetensors", "wb").write(b"owned")\n    return self.forward_(x)\n'
    "CLASS.forward = forward",
    "changes torch's loss": "SOUND\nimport torch\ntorch.nn.functional.cross_entropy ="
    " lambda x, y: x.sum() * 0",
    "changes the clock": 'SOUND\nimport functools\n__import__("time").monotonic = lambda: 0.0',
    "changes the guest": 'SOUND\nmain = __import__("sys").modules["__main__"]\n'
    "main.logits = lambda model, items, scale: 1 / 0\nmain.train = lambda *x: {}",
    "hides in a finaliser": "SOUND\nclass Late:\n    def __del__(self):\n"
    '        open("OUTSIDE/owned", "w").write("late")\nlate = Late()',
    "a class that lies": "from torch import nn\nclass Meta(type(nn.Module)):\n"
    "    def __instancecheck__(cls, x):\n        return True\n"
    "class CLASS(nn.Module, metaclass=Meta):\n"
    "    def __getattr__(self, name):\n        return self",
}
"""By name; each ends by itself, or is stopped at once."""

ENDLESS: dict[str, str] = {
    "loops when it is imported": "SOUND\nwhile True:\n    pass",
    "sleeps when it is trained": "SOUND\nCLASS.forward_ = CLASS.forward\n"
    "def forward(self, x):\n    while len(x) > 2:\n"
    '        __import__("time").sleep(1)\n    return self.forward_(x)\nCLASS.forward = forward',
}
"""By name; each takes until a limit stops it."""
