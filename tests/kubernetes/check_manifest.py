#!/usr/bin/env python3
# check_manifest.py - the manifest has no field that the API lacks, and its parts belong together.
# SPDX-License-Identifier: Apache-2.0
"""Usage: check_manifest.py MANIFEST

A schema of Kubernetes lets fields pass that it does not know.  The classes of python3-kubernetes
are made from the same description: each field has to be one that its object has, of its type, and
each required one has to be there."""

import re
import sys

from manifest import Manifest, skip

try:
    from kubernetes.client import models
except ImportError as missing:
    skip(f"{missing} (Debian: python3-kubernetes)")

KINDS = {
    ("v1", "Service"): "V1Service",
    ("v1", "Secret"): "V1Secret",
    ("batch/v1", "Job"): "V1Job",
}
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


def check_together(manifest):
    """What no schema knows."""
    service, job, pod = manifest.service, manifest.job, manifest.pod
    env = manifest.environment(0)
    spec = job["spec"]
    need(spec["completionMode"] == "Indexed", "the job is not indexed")
    need(spec["parallelism"] == manifest.size, "not all pods run at once")
    need(env["TCDIST_RANK"] == "0", "the rank is not the index")
    need(env["TCDIST_WORLD_SIZE"] == str(manifest.size),
         "TCDIST_WORLD_SIZE is not that of completions")
    need(service["spec"]["clusterIP"] == "None", "the service is not headless")
    need(service["spec"]["publishNotReadyAddresses"] is True, "names come when pods are ready")
    name = service["metadata"]["name"]
    need(pod["spec"]["subdomain"] == name, "the subdomain is not the service")
    for key, value in service["spec"]["selector"].items():
        need(pod["metadata"]["labels"].get(key) == value, f"the service does not select by {key}")
    port = service["spec"]["ports"][0]["port"]
    need(manifest.container["ports"][0]["containerPort"] == port, "the ports differ")
    url = f"tcp://{manifest.pod_name(0)}.{name}:{port}"
    need(env["TCDIST_RENDEZVOUS"] == url, f"TCDIST_RENDEZVOUS is not {url}")


def main():
    manifest = Manifest(sys.argv[1])
    for each in manifest.objects:
        kind = (each.get("apiVersion"), each.get("kind"))
        need(kind in KINDS, f"{kind} is not expected here")
        if kind in KINDS:
            check(each, KINDS[kind], kind[1])
    if not wrong:
        check_together(manifest)
    for text in wrong:
        print(text)
    if not wrong:
        print(f"{len(manifest.objects)} objects fit the API and each other")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
