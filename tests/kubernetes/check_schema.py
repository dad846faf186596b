#!/usr/bin/env python3
# check_schema.py - the manifest fits Kubernetes' JSON schemas, and what is spoilt does not.
# SPDX-License-Identifier: Apache-2.0
"""Usage: check_schema.py MANIFEST FOLDER_WITH_NODE_MODULES

The schemas are those of the npm package kubernetes-models, from Kubernetes' OpenAPI description."""

import copy
import json
import os
import shutil
import subprocess
import sys

from manifest import Manifest, skip

HERE = os.path.dirname(os.path.abspath(__file__))

# What is changed, to what (None: taken away), and what is said of it.
SPOILT = [
    ("Job", "spec.completions", "4", "/spec/completions must be integer"),
    ("Job", "spec.template", None, "must have required property template"),
    ("Job", "spec.template.spec.containers", None, "must have required property containers"),
    ("Job", "spec.template.spec.containers.0.name", None, "must have required property name"),
    ("Job", "spec.template.spec.containers.0.command", "digits", "/command must be array"),
    ("Job", "spec.template.spec.containers.0.env.1.value", 4, "/value must be string"),
    ("Job", "spec.template.spec.containers.0.ports.0.containerPort", "29500", "must be integer"),
    ("Service", "spec.publishNotReadyAddresses", "yes", "must be boolean"),
    ("Service", "spec.ports.0.port", None, "must have required property port"),
    ("Secret", "stringData.key", 17, "must be string"),
]


def spoil(objects, kind, path, value):
    result = copy.deepcopy(next(each for each in objects if each["kind"] == kind))
    at, *rest = result, *path.split(".")
    for name in rest[:-1]:
        at = at[int(name) if name.isdigit() else name]
    if value is None:
        del at[rest[-1]]
    else:
        at[rest[-1]] = value
    return result


def main():
    objects = Manifest(sys.argv[1]).objects
    folder = sys.argv[2]
    if shutil.which("node") is None:
        skip("no node here (Debian: nodejs)")
    if not os.path.isdir(os.path.join(folder, "node_modules", "kubernetes-models")):
        skip(f"no schemas here: npm install --prefix {folder} kubernetes-models")
    spoilt = [spoil(objects, *row[:3]) for row in SPOILT]
    answer = subprocess.run(["node", os.path.join(HERE, "validate.cjs"), folder], check=True,
                            input=json.dumps(objects + spoilt).encode(), stdout=subprocess.PIPE)
    said = json.loads(answer.stdout)

    wrong = [f"{each['kind']}: {text}" for each, text in zip(objects, said) if text != ""]
    for (kind, path, value, want), text in zip(SPOILT, said[len(objects):]):
        if want not in text:
            wrong.append(f"{kind} with {path} {value!r}: \"{text}\", and not \"{want}\"")
    for text in wrong:
        print(text)
    if not wrong:
        print(f"{len(objects)} objects fit their schemas, {len(spoilt)} spoilt ones do not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
