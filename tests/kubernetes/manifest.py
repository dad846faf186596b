# manifest.py - what a manifest says of the job: its objects, and each pod's environment.
# SPDX-License-Identifier: Apache-2.0
import sys


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import yaml
except ImportError as missing:  # nothing is checked without it
    skip(f"{missing} (Debian: python3-yaml)")


class Manifest:
    """The objects of a file with a Service, a Secret and a Job, and of the Job its container."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.objects = list(yaml.safe_load_all(file))
        kinds = {each["kind"]: each for each in self.objects}
        self.service, self.job = kinds["Service"], kinds["Job"]
        self.secrets = {kinds["Secret"]["metadata"]["name"]: kinds["Secret"]["stringData"]}
        self.pod = self.job["spec"]["template"]
        self.container = self.pod["spec"]["containers"][0]
        self.size = self.job["spec"]["completions"]

    def pod_name(self, index):
        """As the controller of Jobs names the host of a pod."""
        return f"{self.job['metadata']['name']}-{index}"

    def environment(self, index):
        """What Kubernetes would set for one pod of the job."""
        annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
        result = {"JOB_COMPLETION_INDEX": str(index)}
        for entry in self.container["env"]:
            source = entry.get("valueFrom", {})
            if "fieldRef" in source:
                path = source["fieldRef"]["fieldPath"]
                if not path.startswith("metadata.annotations['"):
                    raise ValueError(f"{path} is not expected here")
                result[entry["name"]] = annotations[path.split("'")[1]]
            elif "secretKeyRef" in source:
                reference = source["secretKeyRef"]
                result[entry["name"]] = self.secrets[reference["name"]][reference["key"]]
            else:
                result[entry["name"]] = entry["value"]
        return result
