#!/usr/bin/env python3
# check_kubernetes.py - the manifest fits the API's schema, belongs together, and its ranks meet.
# SPDX-License-Identifier: Apache-2.0
"""Usage: check_kubernetes.py MANIFEST [FOLDER_OF_PROGRAMS]

The schema is that of the API's own description, from which the classes of python3-kubernetes are
made: each field has to be one that its object has, of its type, and each required one has to be
there.  With a folder the ranks are started here, with the environment that the manifest gives."""

import os
import re
import socket
import subprocess
import sys

try:
    import yaml
    from kubernetes.client import models
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-kubernetes, python3-yaml)")
    sys.exit(77)

KINDS = {
    ("v1", "Service"): "V1Service",
    ("v1", "Secret"): "V1Secret",
    ("batch/v1", "Job"): "V1Job",
}
SOURCES = os.path.join(os.path.dirname(__file__), os.pardir)  # where a program finds its data
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}
wrong = []


def check(value, kind, where):
    """Whether a value is of a type of the API: "V1Job", "list[V1Container]", "dict(str, str)"."""
    listed = re.fullmatch(r"list\[(.*)\]", kind)
    mapped = re.fullmatch(r"dict\((?:str), (.*)\)", kind)
    if listed:
        if not isinstance(value, list):
            wrong.append(f"{where}: not a list")
            return
        for number, item in enumerate(value):
            check(item, listed.group(1), f"{where}[{number}]")
    elif mapped:
        if not isinstance(value, dict):
            wrong.append(f"{where}: not a map")
            return
        for key, item in value.items():
            check(item, mapped.group(1), f"{where}.{key}")
    elif kind in PLAIN:
        is_bool = isinstance(value, bool) and kind != "bool"
        if not isinstance(value, PLAIN[kind]) or is_bool:
            wrong.append(f"{where}: {value!r} is no {kind}")
    elif hasattr(models, kind):
        check_object(value, getattr(models, kind), where)


def check_object(value, model, where):
    if not isinstance(value, dict):
        wrong.append(f"{where}: not an object")
        return
    fields = {name: attribute for attribute, name in model.attribute_map.items()}
    for name, item in value.items():
        if name not in fields:
            wrong.append(f"{where}: {model.__name__} has no field {name}")
        else:
            check(item, model.openapi_types[fields[name]], f"{where}.{name}")
    try:  # required fields are asked for when an object is made
        model(**{fields[name]: item for name, item in value.items() if name in fields})
    except ValueError as error:
        wrong.append(f"{where}: {error}")


def need(condition, text):
    if not condition:
        wrong.append(text)


def environment(container, index, secrets):
    """What Kubernetes would set for one pod of the job."""
    result = {}
    for entry in container["env"]:
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            path = source["fieldRef"]["fieldPath"]
            need("job-completion-index" in path, "another field than the index")
            result[entry["name"]] = str(index)
        elif "secretKeyRef" in source:
            reference = source["secretKeyRef"]
            secret = secrets.get(reference["name"], {})
            need(reference["key"] in secret, "a secret that is not there")
            result[entry["name"]] = secret.get(reference["key"], "")
        else:
            result[entry["name"]] = entry["value"]
    return result


def check_together(service, job, container, env):
    """What no schema knows."""
    spec = job["spec"]
    pod = spec["template"]
    size = spec["completions"]
    need(spec["completionMode"] == "Indexed", "the job is not indexed")
    need(spec["parallelism"] == size, "not all pods run at once")
    need(env["TCDIST_WORLD_SIZE"] == str(size), "TCDIST_WORLD_SIZE is not that of completions")
    need(service["spec"]["clusterIP"] == "None", "the service is not headless")
    name = service["metadata"]["name"]
    need(pod["spec"]["subdomain"] == name, "the subdomain is not the service")
    for key, value in service["spec"]["selector"].items():
        need(pod["metadata"]["labels"].get(key) == value, f"the service does not select by {key}")
    port = service["spec"]["ports"][0]["port"]
    need(container["ports"][0]["containerPort"] == port, "the ports differ")
    url = f"tcp://{job['metadata']['name']}-0.{name}:{port}"
    need(env["TCDIST_RENDEZVOUS"] == url, f"TCDIST_RENDEZVOUS is not {url}")


def run(container, size, secrets, folder):
    """Each pod as a process here; the name of rank 0, which only a cluster knows, as loopback."""
    children = []
    listener = socket.create_server(("127.0.0.1", 0))
    for index in range(size):
        env = environment(container, index, secrets)
        env["TCDIST_RENDEZVOUS"] = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        if index == 0:
            env["TCDIST_RENDEZVOUS_FD"] = str(listener.fileno())
        command = [os.path.join(folder, container["command"][0])] + container["command"][1:]
        children.append(subprocess.Popen(command, env={**os.environ, **env}, cwd=SOURCES,
                                         pass_fds=[listener.fileno()] if index == 0 else [],
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    for index, child in enumerate(children):
        text = child.communicate()[0].decode()
        need(child.returncode == 0, f"rank {index} ended with {child.returncode}: {text}")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    found = {}
    for document in documents:
        kind = (document.get("apiVersion"), document.get("kind"))
        need(kind in KINDS, f"{kind} is not expected here")
        if kind in KINDS:
            check(document, KINDS[kind], kind[1])
            found[kind[1]] = document
    if not wrong:
        job = found["Job"]
        container = job["spec"]["template"]["spec"]["containers"][0]
        secrets = {found["Secret"]["metadata"]["name"]: found["Secret"]["stringData"]}
        check_together(found["Service"], job, container, environment(container, 0, secrets))
        if not wrong and len(sys.argv) > 2:
            run(container, job["spec"]["completions"], secrets, sys.argv[2])
    for text in wrong:
        print(text)
    if not wrong:
        print(f"{len(documents)} objects fit the schema and each other")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
